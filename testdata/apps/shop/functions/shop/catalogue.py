"""GET /api/catalogue?shelf=lamps: what the shop sells, on all shelves or on one."""

import json

from flask import request

from products import PRODUCTS


def main():
    shelf = request.args.get("shelf")
    found = [
        {"id": id, "name": name, "shelf": on, "price": price}
        for id, (name, on, price) in PRODUCTS.items()
        if shelf in (None, on)
    ]
    return json.dumps(found), 200, {"Content-Type": "application/json"}
