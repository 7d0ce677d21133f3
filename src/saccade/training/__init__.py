"""Training: recipes and populations, many models as one program, and runs that survive anything."""

from saccade.training.recipe import RECIPES as RECIPES
from saccade.training.recipe import Member as Member
from saccade.training.recipe import Recipe as Recipe
from saccade.training.recipe import members as members
from saccade.training.recipe import recipe as recipe
from saccade.training.run import COMPARED as COMPARED
from saccade.training.run import Progress as Progress
from saccade.training.run import about as about
from saccade.training.run import compare as compare
from saccade.training.run import load_data as load_data
from saccade.training.run import metrics as metrics
from saccade.training.run import milestone as milestone
from saccade.training.run import resume as resume
from saccade.training.run import status as status
from saccade.training.run import train as train
