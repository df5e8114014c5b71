"""Greets who asks: GET /hello?name=Ada"""

from flask import request


def main():
    name = request.args.get("name", "world")
    print("greeting", name)
    return f"Hello, {name}!\n"
