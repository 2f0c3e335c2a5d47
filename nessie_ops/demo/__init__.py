"""`nessie-ops demo`: two months published, a damaged third refused, all of it verified by the script itself."""

from nessie_ops.demo.story import run_demo

__all__ = ["run_demo"]
