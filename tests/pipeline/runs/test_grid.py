"""Several strengths of regularisation: what is proven of one is what it would prove alone."""

import pytest

from fewpass.pipeline.runs.grid import certificate_of
from fewpass.solvers.multi_model import joint_certificate
from fewpass.solvers.protocol import Certificate


@pytest.mark.parametrize("classes", [1, 3, 10])
def test_one_lam_s_certificate_has_the_bits_of_its_classes_alone(classes):
    each = [Certificate(0.1 * (k % 7), 1e-3 / (k + 1)) for k in range(2 * classes)]
    alone = each[classes:]
    found = certificate_of(joint_certificate(each), lams=2, k=1)
    assert found == (joint_certificate(alone) if classes > 1 else alone[0])
