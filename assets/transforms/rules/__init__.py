"""The rules that a month must obey, per layer, as audits.

What they tolerate stands in known_gaps.py, and in docs/pipeline.md with the counts.
"""

from assets.transforms.rules.bronze import bronze_rules
from assets.transforms.rules.gold import gold_rules
from assets.transforms.rules.silver import silver_rules

__all__ = ["bronze_rules", "gold_rules", "silver_rules"]
