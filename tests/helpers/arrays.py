"""Parts of array files."""

import io

from numpy.lib import format as npy


def header(dtype, shape):
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()
