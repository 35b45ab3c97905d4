"""The process of `hopgraph studio`: signals are handled before anything else is imported."""

from __future__ import annotations

import sys

from hopgraph.signals import stop_at_once

if __name__ == "__main__":
    stop_at_once()
    from hopgraph.studio.server import main

    sys.exit(main())
