"""Ports for tests, held as long as the test process lives."""

from __future__ import annotations

from herma.local.ports import Ports

take_port = Ports().take
