"""Events after each change of a reference: callables in this process, and webhooks.  Follows the reference log."""

from nessie_ops.events.addresses import Networks
from nessie_ops.events.delivery import Delivery
from nessie_ops.events.subscription import Subscription, subscribe
from nessie_ops.events.webhook import Policy, verify
from nessie_ops.events.webhooks import Webhooks

__all__ = ["Delivery", "Networks", "Policy", "Subscription", "Webhooks", "subscribe", "verify"]
