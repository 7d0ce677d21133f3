"""Learns events from sensorimotor sequences without labels, and looks ahead by them."""

from saccade.checks import FileError as FileError
from saccade.checks import InputError as InputError
from saccade.checks import SaccadeError as SaccadeError
from saccade.events import Agreement as Agreement
from saccade.events import Segments as Segments
from saccade.events import adjusted_rand as adjusted_rand
from saccade.events import agreement as agreement
from saccade.events import boundaries as boundaries
from saccade.events import covering as covering
from saccade.events import episodes as episodes
from saccade.events import openings as openings
from saccade.events import segments as segments
from saccade.events import skip_targets as skip_targets
from saccade.events import strength as strength
from saccade.memory import GRU as GRU
from saccade.memory import GateL0RD as GateL0RD
from saccade.memory import unroll as unroll
from saccade.models import PRESETS as PRESETS
from saccade.models import EventModel as EventModel
from saccade.models import ForwardInverseModel as ForwardInverseModel
from saccade.models import ModelSettings as ModelSettings
from saccade.models import SkipNetwork as SkipNetwork
from saccade.models import forward_inverse_loss as forward_inverse_loss
from saccade.models import measure as measure
from saccade.models import preset as preset
from saccade.models import skip_loss as skip_loss
from saccade.networks import Gaussian as Gaussian
from saccade.networks import beta_nll as beta_nll
from saccade.saving import describe as describe
from saccade.saving import load as load
from saccade.saving import load_original as load_original
from saccade.saving import save as save

__version__ = "0.1.0"
