def main():
    return "This is bar.\n"
