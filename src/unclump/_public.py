"""The public names of the package, listed only here."""

from unclump._checks import TooFewPointsWarning
from unclump.codes import Code, spherical_code, upper_bound
from unclump.codes.prototypes import PrototypeHead, prototypes, squared_cosine_loss
from unclump.dispersion.loop import Dispersed, disperse
from unclump.dispersion.placing import place
from unclump.dispersion.repair import Separated, separate_duplicates
from unclump.distributed.ranks import Shards
from unclump.geometry.circles import axis_circles, great_circles
from unclump.geometry.distributions import PowerSpherical, VonMisesFisher
from unclump.geometry.sampling import orthonormal_blocks, sobol, uniform
from unclump.geometry.sphere import angle, chord
from unclump.geometry.uniform_law import duplicate_angle
from unclump.kernel_means import kernel_mean
from unclump.kernels import FramePotential, Gaussian, Kernel, Laplace, Riesz
from unclump.measures.angles import (
    covering_radius,
    effective_rank,
    mean_angle,
    median_angle,
    min_angle,
    nearest_angles,
    spherical_variance,
    summary,
)
from unclump.measures.codebook import UniformAssignments, codebook_perplexity, codebook_usage
from unclump.measures.isotropic_law import IsotropicLaw
from unclump.measures.lidar import lidar
from unclump.measures.mmd_error import mmd_deviation, mmd_variance
from unclump.measures.overlap import neighbour_overlap
from unclump.measures.pairs import mean_cosine
from unclump.measures.spectrum import alpha_req, isoscore, rankme
from unclump.measures.summary_table import Summary
from unclump.measures.uniformity_tests import (
    UniformityTest,
    ajne_test,
    bingham_test,
    gine_test,
    mmd_test,
    rayleigh_test,
)
from unclump.objectives import (
    MMD,
    SSW,
    Energy,
    KoLeo,
    Lloyd,
    LogDet,
    MaxMin,
    Objective,
    Polarization,
    SIGReg,
    Sliced,
    SphericalVariance,
    Uniformity,
    VISReg,
    alignment,
    energy,
    koleo,
    list_objectives,
    lloyd,
    log_det,
    max_min,
    mmd,
    negative_spherical_variance,
    objective,
    polarization,
    sigreg,
    sliced,
    ssw,
    uniformity,
    visreg,
)
from unclump.objectives.antipodal import Antipodal
from unclump.objectives.balanced import Balanced
from unclump.objectives.checkpointing import replay
from unclump.ops.project import project
from unclump.optim.optimizers import SphereAdam, SphereSGD
from unclump.optim.projected import project_after_step, sphere_parametrization
from unclump.tables.files import Table, load, save
from unclump.tables.health import Health, health
from unclump.tables.sources import as_table
from unclump.tables.transform import Isotropy

__all__ = [
    "MMD",
    "SSW",
    "Antipodal",
    "Balanced",
    "Code",
    "Dispersed",
    "Energy",
    "FramePotential",
    "Gaussian",
    "Health",
    "IsotropicLaw",
    "Isotropy",
    "Kernel",
    "KoLeo",
    "Laplace",
    "Lloyd",
    "LogDet",
    "MaxMin",
    "Objective",
    "Polarization",
    "PowerSpherical",
    "PrototypeHead",
    "Riesz",
    "SIGReg",
    "Separated",
    "Shards",
    "Sliced",
    "SphereAdam",
    "SphereSGD",
    "SphericalVariance",
    "Summary",
    "Table",
    "TooFewPointsWarning",
    "UniformAssignments",
    "Uniformity",
    "UniformityTest",
    "VISReg",
    "VonMisesFisher",
    "ajne_test",
    "alignment",
    "alpha_req",
    "angle",
    "as_table",
    "axis_circles",
    "bingham_test",
    "chord",
    "codebook_perplexity",
    "codebook_usage",
    "covering_radius",
    "disperse",
    "duplicate_angle",
    "effective_rank",
    "energy",
    "gine_test",
    "great_circles",
    "health",
    "isoscore",
    "kernel_mean",
    "koleo",
    "lidar",
    "list_objectives",
    "lloyd",
    "load",
    "log_det",
    "max_min",
    "mean_angle",
    "mean_cosine",
    "median_angle",
    "min_angle",
    "mmd",
    "mmd_deviation",
    "mmd_test",
    "mmd_variance",
    "nearest_angles",
    "negative_spherical_variance",
    "neighbour_overlap",
    "objective",
    "orthonormal_blocks",
    "place",
    "polarization",
    "project",
    "project_after_step",
    "prototypes",
    "rankme",
    "rayleigh_test",
    "replay",
    "save",
    "separate_duplicates",
    "sigreg",
    "sliced",
    "sobol",
    "sphere_parametrization",
    "spherical_code",
    "spherical_variance",
    "squared_cosine_loss",
    "ssw",
    "summary",
    "uniform",
    "uniformity",
    "upper_bound",
    "visreg",
]
