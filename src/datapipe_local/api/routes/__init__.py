"""HTTP routes, a thin layer above :mod:`datapipe_local.services`."""

import warnings

# FastAPI sets this alias on every body and pydantic ignores it. The project cannot fix the warning.
warnings.filterwarnings("ignore", message="The 'alias' attribute with value 'body'")
