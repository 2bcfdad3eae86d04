"""OpenAI's responses over sessions and turns."""
