"""pip without the settings that change what is installed (suite/engines/pip_settings.py).

python scripts/isolated_pip.py install ...
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from suite.engines import pip_settings
from suite.errors import EngineError

try:
    variables = pip_settings.environment()
except EngineError as error:
    sys.exit(f"error: {error}\nhint: {error.hint}")
os.execve(sys.executable, [sys.executable, "-m", "pip", *sys.argv[1:]], variables)
