"""The broker: a process of its own that alone may speak to a container engine.

Its interface is narrow: callers choose a granted template and ids, never an image, a mount, a device
or a capability.
"""
