"""POST /api/checkout {"name", "email", "address", "items"}: takes an order and gives it a number."""

import json
import secrets

from flask import request


def main():
    order = request.get_json(silent=True)
    if not isinstance(order, dict):
        return answer(400, {"error": "An order is an object."})
    for field in ("name", "email", "address"):
        value = order.get(field)
        if not isinstance(value, str) or not value.strip():
            return answer(400, {"error": f"The {field} is missing."})
    if "@" not in order["email"]:
        return answer(400, {"error": "That is not an e-mail address."})
    if not isinstance(order.get("items"), dict) or not order["items"]:
        return answer(400, {"error": "The basket is empty."})
    return answer(201, {"order": secrets.token_hex(4).upper(), "name": order["name"].strip()})


def answer(status, body):
    return json.dumps(body), status, {"Content-Type": "application/json"}
