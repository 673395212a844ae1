"""`python -m noisegate`: the command line."""

from noisegate.cli.start import run

if __name__ == "__main__":
    run()
