import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[4] / "data"))  # for image_files
