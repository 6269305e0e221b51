"""Stock of a small warehouse, kept in a SQLite file."""

import csv
import logging
import sqlite3
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass
class Item:
    sku: str
    name: str
    quantity: int
    price: float

    def value(self) -> float:
        return self.quantity * self.price


class Inventory:
    def __init__(self, path: Path):
        self.path = path
        self.connection = sqlite3.connect(path)
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS items (sku TEXT PRIMARY KEY, name TEXT, quantity INTEGER, price REAL)"
        )

    def close(self) -> None:
        self.connection.close()

    def add(self, item: Item) -> None:
        self.connection.execute(
            "INSERT INTO items VALUES (?, ?, ?, ?)",
            (item.sku, item.name, item.quantity, item.price),
        )
        self.connection.commit()

    def get(self, sku: str) -> Item | None:
        row = self.connection.execute("SELECT * FROM items WHERE sku = ?", (sku,)).fetchone()
        if row is None:
            return None
        return Item(*row)

    def remove(self, sku: str, quantity: int) -> None:
        item = self.get(sku)
        if item is None:
            raise KeyError(sku)
        self.connection.execute(
            "UPDATE items SET quantity = ? WHERE sku = ?",
            (item.quantity - quantity, sku),
        )
        self.connection.commit()

    def all(self) -> list[Item]:
        rows = self.connection.execute("SELECT * FROM items ORDER BY sku")
        return [Item(*row) for row in rows]

    def total_value(self) -> float:
        total = 0.0
        for item in self.all():
            total += item.value()
        return total


def import_csv(inventory: Inventory, path: Path) -> int:
    count = 0
    with open(path) as file:
        for row in csv.DictReader(file):
            item = Item(row["sku"], row["name"], int(row["quantity"]), float(row["price"]))
            inventory.add(item)
            count += 1
    log.info("imported %d items", count)
    return count


def export_csv(inventory: Inventory, path: Path) -> None:
    with open(path, "w") as file:
        writer = csv.writer(file)
        writer.writerow(["sku", "name", "quantity", "price"])
        for item in inventory.all():
            writer.writerow([item.sku, item.name, item.quantity, item.price])


def report(inventory: Inventory) -> str:
    lines = []
    for item in inventory.all():
        lines.append(f"{item.sku:10} {item.name:30} {item.quantity:6d} {item.value():10.2f}")
    lines.append(f"total: {inventory.total_value():.2f}")
    return "\n".join(lines)
