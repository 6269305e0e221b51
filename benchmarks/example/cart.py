"""Shopping cart: items, discounts, totals."""

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True)
class Item:
    """One line of the cart."""

    sku: str
    name: str
    price: Decimal
    quantity: int = 1

    @property
    def total(self) -> Decimal:
        return self.price * self.quantity


@dataclass
class Cart:
    """What a customer is about to buy."""

    customer: str
    items: list[Item] = field(default_factory=list)
    discount_percent: int = 0

    def add(self, item: Item) -> None:
        self.items.append(item)

    def remove(self, sku: str) -> None:
        self.items = [item for item in self.items if item.sku != sku]

    def clear(self) -> None:
        self.items = []

    @property
    def subtotal(self) -> Decimal:
        return sum((item.total for item in self.items), Decimal(0))

    @property
    def total(self) -> Decimal:
        return self.subtotal * (100 - self.discount_percent) / 100


def checkout(cart: Cart) -> str:
    lines = [f"{item.quantity} x {item.name}: {item.total}" for item in cart.items]
    lines.append(f"Total for {cart.customer}: {cart.total}")
    return "\n".join(lines)
