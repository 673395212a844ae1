"""`python -m noisegate` is the command line, where the script is not on the path."""

from noisegate.cli.start import start

if __name__ == "__main__":
    start()
