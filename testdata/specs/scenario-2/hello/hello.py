def main():
    return "Hello, world!\n"
