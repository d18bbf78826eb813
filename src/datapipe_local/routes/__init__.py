"""The HTTP interface: thin, above the rules of :mod:`datapipe_local.service`."""

import warnings

# FastAPI gives every body this alias, and pydantic finds no use for it: nothing that anybody could mend here.
warnings.filterwarnings("ignore", message="The 'alias' attribute with value 'body'")
