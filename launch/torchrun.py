"""torchrun that ends with its message, without a traceback of torch. The exit code stays 1."""

import sys

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main

try:
    main()
except (SignalException, ChildFailedError) as error:
    sys.exit(f"torchrun: {error}")
