"""Answers an event of somebody's arrival with one that greets: {"name": "Ada"}"""


def main(event):
    name = event["data"]["name"]
    print("greeting", name)
    return {
        "specversion": "1.0",
        "type": "greeting",
        "source": "/example/greet",
        "datacontenttype": "application/json",
        "data": {"text": f"Hello, {name}!"},
    }
