# ... existing code ...

    def add(self, item: Item) -> None:
        if item.quantity < 1:
            raise ValueError(f"quantity of {item.sku} must be positive")
        self.items.append(item)

    # ... existing code ...

    @property
    def total(self) -> Decimal:
        discounted = self.subtotal * (100 - self.discount_percent) / 100
        return discounted.quantize(Decimal("0.01"))


def checkout(cart: Cart) -> str:
    if not cart.items:
        return f"Nothing to pay, {cart.customer}."
    lines = [f"{item.quantity} x {item.name}: {item.total}" for item in cart.items]
    # ... existing code ...
