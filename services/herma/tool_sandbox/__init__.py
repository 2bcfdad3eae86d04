"""tool-sandbox: one sandbox per session.  Its broker alone has engine rights."""
