def main():
    return "This is foo.\n"
