"""OpenAI's chat completions over sessions and turns."""
