"""`python -m noisegate` is the command line, where the script is not on the path."""

from noisegate.app.cli.start import start

if __name__ == "__main__":
    start()
