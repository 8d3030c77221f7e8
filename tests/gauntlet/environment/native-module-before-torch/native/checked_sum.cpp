// Sums the rows of a contiguous float matrix; refuses what is not one, with torch's own check.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <c10/util/Exception.h>

static PyObject* row_sums(PyObject*, PyObject* args) {
  Py_buffer rows;
  Py_ssize_t width = 0;
  if (!PyArg_ParseTuple(args, "y*n", &rows, &width)) return nullptr;
  const Py_ssize_t count = rows.len / static_cast<Py_ssize_t>(sizeof(float));
  TORCH_CHECK(width > 0 && count % width == 0, "rows of ", width, " floats expected, got ", count);
  PyObject* sums = PyList_New(count / width);
  const float* values = static_cast<const float*>(rows.buf);
  for (Py_ssize_t row = 0; row < count / width; ++row) {
    double sum = 0;
    for (Py_ssize_t i = 0; i < width; ++i) sum += values[row * width + i];
    PyList_SET_ITEM(sums, row, PyFloat_FromDouble(sum));
  }
  PyBuffer_Release(&rows);
  return sums;
}

static PyMethodDef methods[] = {{"row_sums", row_sums, METH_VARARGS, "Sums of the rows."}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "checked_sum", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_checked_sum() { return PyModule_Create(&module); }
