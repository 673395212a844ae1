# What type checkers read in place of __init__.py, where names are loaded when they are
# first used; a test compares both.
from noisegate_evaluate.comparison import ImageReport as ImageReport
from noisegate_evaluate.comparison import LinkedReport as LinkedReport
from noisegate_evaluate.comparison import Report as Report
from noisegate_evaluate.images import EncoderFeatures as EncoderFeatures
from noisegate_evaluate.images import ImageFeatures as ImageFeatures
from noisegate_evaluate.images import Pixels as Pixels
from noisegate_evaluate.images import images_of as images_of
from noisegate_evaluate.images import named_features as named_features
from noisegate_evaluate.measures import evaluate_images as evaluate_images
from noisegate_evaluate.measures import evaluate_linked as evaluate_linked
from noisegate_evaluate.measures import evaluate_tables as evaluate_tables
from noisegate_evaluate.metrics.frechet import KernelDistance as KernelDistance
from noisegate_evaluate.metrics.frechet import Manifold as Manifold
from noisegate_evaluate.metrics.frechet import frechet_distance as frechet_distance
from noisegate_evaluate.metrics.frechet import kernel_distance as kernel_distance
from noisegate_evaluate.metrics.frechet import manifold_figures as manifold_figures
from noisegate_evaluate.metrics.links import LinkDistances as LinkDistances
from noisegate_evaluate.metrics.marginals import MarginalReport as MarginalReport
from noisegate_evaluate.metrics.marginals import OrderDistance as OrderDistance
from noisegate_evaluate.metrics.marginals import (
    marginal_distances as marginal_distances,
)
from noisegate_evaluate.metrics.ndb import DifferentBins as DifferentBins
from noisegate_evaluate.metrics.ndb import DistributionScores as DistributionScores
from noisegate_evaluate.metrics.ndb import different_bins as different_bins
from noisegate_evaluate.metrics.ndb import distribution_scores as distribution_scores
from noisegate_evaluate.metrics.result import CAVEAT as CAVEAT
from noisegate_evaluate.tables import RegressionReport as RegressionReport
from noisegate_evaluate.tables import RegressionScores as RegressionScores
from noisegate_evaluate.tables import downstream_scores as downstream_scores
from noisegate_evaluate.tables import regression_scores as regression_scores
from noisegate_evaluate.utility.networks import NETWORKS as NETWORKS
from noisegate_evaluate.utility.networks import NETWORKS_VERSION as NETWORKS_VERSION
from noisegate_evaluate.utility.networks import NetworkOptions as NetworkOptions
from noisegate_evaluate.utility.networks import SelectionRecipe as SelectionRecipe
from noisegate_evaluate.utility.networks import Training as Training
from noisegate_evaluate.utility.networks import build_network as build_network
from noisegate_evaluate.utility.recipe import LabelledRows as LabelledRows
from noisegate_evaluate.utility.recipe import PrintedScores as PrintedScores
from noisegate_evaluate.utility.recipe import Recipe as Recipe
from noisegate_evaluate.utility.recipe import Scores as Scores
from noisegate_evaluate.utility.recipe import Suite as Suite
from noisegate_evaluate.utility.runner import UtilityReport as UtilityReport
from noisegate_evaluate.utility.runner import utility_scores as utility_scores
from noisegate_evaluate.utility.suites import THREE_VERSION as THREE_VERSION
from noisegate_evaluate.utility.suites import TWELVE_VERSION as TWELVE_VERSION
from noisegate_evaluate.utility.suites import networks as networks
from noisegate_evaluate.utility.suites import read_classifiers as read_classifiers
from noisegate_evaluate.utility.suites import three as three
from noisegate_evaluate.utility.suites import twelve as twelve
