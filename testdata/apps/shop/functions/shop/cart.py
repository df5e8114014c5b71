"""POST /api/cart {"heron-mug": 2}: what the things in a basket cost, in cents."""

import json

from flask import request

from products import PRODUCTS

DELIVERY = 490
DELIVERY_FREE_FROM = 6000
MOST = 20


def main():
    items = request.get_json(silent=True)
    if not isinstance(items, dict):
        return answer(400, {"error": "A basket is an object of product and number."})
    lines, total = [], 0
    for id, number in items.items():
        if id not in PRODUCTS:
            return answer(400, {"error": f"There is no {id!r} on our shelves."})
        if not isinstance(number, int) or not 1 <= number <= MOST:
            return answer(400, {"error": f"Of {id!r} we sell 1 to {MOST} at a time."})
        name, _, price = PRODUCTS[id]
        lines.append({"id": id, "name": name, "number": number, "price": price * number})
        total += price * number
    delivery = 0 if total == 0 or total >= DELIVERY_FREE_FROM else DELIVERY
    return answer(200, {"lines": lines, "delivery": delivery, "total": total + delivery})


def answer(status, body):
    return json.dumps(body), status, {"Content-Type": "application/json"}
