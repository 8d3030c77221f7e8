// A stand-in on CPU for flash-attn's extension `flash_attn_2_cuda`: the same five functions, arguments, results,
// checks and error texts, so that flash_attn's own Python layer runs over it on a machine without a GPU.
//
// - CPU plays CUDA: what lies on another device "must be on CUDA". The compute capability is that of the environment
//   variable TRUEUP_STANDIN_CAPABILITY (8.0 unless set).
// - One build serves flash-attn 2.5.9 to 2.8.3: when it is loaded it reads which version is being imported and takes
//   that version's signatures, results and words.
// - Arithmetic is in float32 and touches no dispatcher (no autograd, autocast, dispatch mode or profiler sees it); as on
//   the GPU, only the allocations do. Dropout draws the same bits as the kernels: Philox 4x32-7 over tiles of 16 x 32.
// - Where the real kernel would read or write outside of its tensors, this one raises an illegal memory access.
//
// What is a fact of flash-attn here (conditions, their order, texts, shapes) was read in csrc/flash_attn/flash_api.cpp
// and csrc/flash_attn/src of the versions named above.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <torch/csrc/utils/pybind.h>

namespace {

namespace py = pybind11;
using at::IntArrayRef;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Tensors = std::vector<Tensor>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- which flash-attn is played ------------------------------------------------------------------------------------

enum Generation {
  kFlash25,  // no softcap, no leftpad_k; eight results, heads padded here, lse (batch, heads, max_seqlen_q)
  kFlash26,  // softcap, leftpad_k; eight results, heads padded here, lse (heads, total_q)
  kFlash27,  // four results, heads padded by the Python layer; custom operators there
};
Generation generation = kFlash27;

std::string version_being_imported() {
  // flash_attn/__init__.py sets __version__ before it imports what imports this module.
  py::dict modules = py::module_::import("sys").attr("modules");
  if (modules.contains("flash_attn") && py::hasattr(modules["flash_attn"], "__version__"))
    return py::str(modules["flash_attn"].attr("__version__"));
  try {
    return py::str(py::module_::import("importlib.metadata").attr("version")("flash-attn"));
  } catch (py::error_already_set&) {
    return "2.8.3";
  }
}

Generation generation_of(const std::string& version) {
  int major = 2, minor = 8;
  std::sscanf(version.c_str(), "%d.%d", &major, &minor);
  return minor <= 5 ? kFlash25 : minor == 6 ? kFlash26 : kFlash27;
}

// ---- the GPU that is played ----------------------------------------------------------------------------------------

std::pair<int, int> capability() {
  int major = 8, minor = 0;
  if (const char* said = std::getenv("TRUEUP_STANDIN_CAPABILITY"))
    TORCH_CHECK(std::sscanf(said, "%d.%d", &major, &minor) == 2, "TRUEUP_STANDIN_CAPABILITY must be like 8.0, not ", said);
  return {major, minor};
}

bool large_shared_memory() {  // A100/A800 or H100/H800
  auto [major, minor] = capability();
  return (major == 8 || major == 9) && minor == 0;
}

bool small_shared_memory() {  // 99 KB a block
  auto [major, minor] = capability();
  return (major == 8 && (minor == 6 || minor == 9)) || major == 12;
}

void check_gpu(const Tensor& q) {
  // Since 2.7 the device is switched to first; before, after the checks.
  if (generation == kFlash27)
    TORCH_CHECK(q.is_cpu(), "CUDAGuardImpl initialized with non-CUDA DeviceType: ", q.device().type());
  auto [major, minor] = capability();
  const bool served = generation == kFlash27 ? major >= 8 : major == 8 || (major == 9 && minor == 0);
  TORCH_CHECK(served, "FlashAttention only supports Ampere GPUs or newer.");
}

// ---- checks --------------------------------------------------------------------------------------------------------

void check_device(const Tensor& x, const char* name) { TORCH_CHECK(x.is_cpu(), name, " must be on CUDA"); }

void check_contiguous(const Tensor& x, const char* name) { TORCH_CHECK(x.is_contiguous(), name, " must be contiguous"); }

void check_shape(const Tensor& x, IntArrayRef sizes, const char* name, const char* words) {
  TORCH_CHECK(x.sizes() == sizes, name, " must have shape (", words, ")");
}

void check_last_dimension(const Tensor& x, const char* name) {
  TORCH_CHECK(x.stride(-1) == 1, name, " must have contiguous last dimension");
}

void check_int32(const Tensor& x, const char* words) { TORCH_CHECK(x.dtype() == at::kInt, words); }

void check_dtypes(const Tensor& q, const Tensor& k, const Tensor& v) {
  TORCH_CHECK(q.dtype() == at::kHalf || q.dtype() == at::kBFloat16, "FlashAttention only support fp16 and bf16 data type");
  TORCH_CHECK(k.dtype() == q.dtype(), "query and key must have the same dtype");
  TORCH_CHECK(v.dtype() == q.dtype(), "query and value must have the same dtype");
}

void check_devices(const Tensor& q, const Tensor& k, const Tensor& v, const char* k_name = "k", const char* v_name = "v") {
  check_device(q, "q");
  check_device(k, k_name);
  check_device(v, v_name);
}

void check_inputs_contiguous(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* x : {&q, &k, &v}) check_last_dimension(*x, "Input tensor");
}

void check_heads(int64_t heads, int64_t heads_k) {
  TORCH_CHECK(heads_k > 0, "CPU stand-in: k has no heads; flash-attn divides by their number here, and the process dies");
  TORCH_CHECK(heads % heads_k == 0, "Number of heads in key/value must divide number of heads in query");
}

void check_forward_sizes(int64_t batch, int64_t head_dim, int64_t heads, int64_t heads_k, bool misspelt, bool pads) {
  TORCH_CHECK(batch > 0, misspelt ? "batch size must be postive" : "batch size must be positive");
  TORCH_CHECK(head_dim <= 256, "FlashAttention forward only supports head dimension at most 256");
  if (!pads) TORCH_CHECK(head_dim % 8 == 0, "query, key, value, and out_ must have a head_size that is a multiple of 8");
  check_heads(heads, heads_k);
}

void check_softcap(float softcap, float p_dropout) {
  if (softcap > 0.f) TORCH_CHECK(p_dropout == 0.f, "Softcapping does not support dropout for now");
}

void check_block_table(const Tensor& block_table) {
  check_device(block_table, "block_table");
  check_int32(block_table, "block_table must have dtype torch.int32");
  check_last_dimension(block_table, "block_table");
}

void check_leftpad(const Tensor& leftpad_k, bool paged, int64_t batch) {
  TORCH_CHECK(!paged, "We don't support Paged KV and leftpad_k running at the same time yet");
  check_int32(leftpad_k, "leftpad_k must have dtype int32");
  check_device(leftpad_k, "leftpad_k");
  check_contiguous(leftpad_k, "leftpad_k");
  check_shape(leftpad_k, {batch}, "leftpad_k", "batch_size");
}

void check_given_output(const Tensor& out, const Tensor& q) {
  TORCH_CHECK(out.dtype() == q.dtype(), "Output must have the same dtype as inputs");
  check_device(out, "out");
  check_last_dimension(out, "Output tensor");
}

void check_memory(bool inside, const char* what) {
  TORCH_CHECK(inside, "CUDA error: an illegal memory access was encountered (CPU stand-in: ", what, ")");
}

// ---- what is computed ----------------------------------------------------------------------------------------------

struct Scoring {  // how a query row scores a key, and which keys it sees
  float scale = 1;
  float softcap = 0;
  bool causal = false;
  int64_t left = -1;   // window sizes; -1: unbounded
  int64_t right = -1;
  const float* slopes = nullptr;  // ALiBi
  int64_t slopes_batch_stride = 0;

  void set_window(int64_t window_left, int64_t window_right, int64_t max_seqlen_k) {
    causal = window_left < 0 && window_right == 0;
    left = window_left < 0 && window_right >= 0 ? max_seqlen_k : window_left;
    right = window_left >= 0 && window_right < 0 ? max_seqlen_k : window_right;
  }
  // Aligned to the bottom right corner: the last query sees the last key.
  int64_t first_key(int64_t row, int64_t rows, int64_t keys) const {
    return causal || left < 0 ? 0 : std::max<int64_t>(0, row + keys - rows - left);
  }
  int64_t end_of_keys(int64_t row, int64_t rows, int64_t keys) const {
    return right < 0 ? keys : std::min(keys, row + 1 + keys - rows + right);
  }
  float slope(int64_t batch, int64_t head) const { return slopes ? slopes[batch * slopes_batch_stride + head] : 0.f; }
};

struct Dropout {
  float p = 0;
  uint64_t seed = 0;
  uint64_t offset = 0;

  float keep() const { return 1.f - p; }
  float scale() const { return 1.f / keep(); }
};

struct Layout {  // where a 16-bit tensor holds (batch, row, head, :); strides in elements
  uint16_t* data = nullptr;
  int64_t batch = 0, row = 0, head = 0;

  uint16_t* at(int64_t b, int64_t r, int64_t h) const { return data + b * batch + r * row + h * head; }
};

Layout layout_of(const Tensor& x) {
  return {static_cast<uint16_t*>(x.data_ptr()), x.dim() == 4 ? x.stride(0) : 0, x.stride(-3), x.stride(-2)};
}

struct RowLayout {  // where a float tensor holds one number per (batch, head, row)
  float* data = nullptr;
  int64_t batch = 0, head = 0;
  bool packed = false;   // rows of all sequences behind each other
  int64_t padding = 0;   // packed: this many rows between two sequences
};

struct Sequence {
  int64_t index = 0;              // number in the batch: ALiBi, dropout, lse
  int64_t q_batch = 0, q_start = 0, rows = 0;
  int64_t k_batch = 0, k_start = 0, keys = 0;
  int64_t computed_rows = 0;      // the caller's max_seqlen leaves out what lies behind
  int64_t computed_keys = 0;      // backward only
  const int* blocks = nullptr;    // paged keys: number of the block of each page
};

float* rows_of(const RowLayout& layout, const Sequence& s, int64_t head) {
  const int64_t start = layout.packed ? s.q_start + layout.padding * s.index : 0;
  return layout.data + (layout.packed ? 0 : s.index * layout.batch) + head * layout.head + start;
}

struct Problem {
  at::ScalarType dtype = at::kHalf;
  int64_t heads = 0, heads_k = 0, head_dim = 0;
  int64_t page = 0;  // rows of a block of a paged cache
  Scoring scoring;
  Dropout dropout;
  std::vector<Sequence> sequences;
  Layout q, k, v, out;
  RowLayout lse;
  Tensor probabilities;  // (batch, heads, rows rounded, keys rounded) or undefined
  // backward
  Layout dout, dq, dk, dv;
  RowLayout dot;

  int64_t group() const { return heads / heads_k; }
};

// ---- rows in and out -----------------------------------------------------------------------------------------------

void load(const Problem& p, float* to, const uint16_t* from) {
  if (p.dtype == at::kHalf)
    for (int64_t i = 0; i < p.head_dim; ++i) to[i] = static_cast<float>(c10::Half(from[i], c10::Half::from_bits()));
  else
    for (int64_t i = 0; i < p.head_dim; ++i) to[i] = static_cast<float>(c10::BFloat16(from[i], c10::BFloat16::from_bits()));
}

void store(const Problem& p, uint16_t* to, const float* from, float factor = 1) {
  if (p.dtype == at::kHalf)
    for (int64_t i = 0; i < p.head_dim; ++i) to[i] = c10::Half(from[i] * factor).x;
  else
    for (int64_t i = 0; i < p.head_dim; ++i) to[i] = c10::BFloat16(from[i] * factor).x;
}

uint16_t* key_row(const Problem& p, const Layout& layout, const Sequence& s, int64_t row, int64_t head) {
  if (s.blocks) return layout.at(s.blocks[row / p.page], row % p.page, head);
  return layout.at(s.k_batch, s.k_start + row, head);
}

void load_queries(const Problem& p, const Layout& x, const Sequence& s, int64_t head, int64_t row, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) load(p, to + i * p.head_dim, x.at(s.q_batch, s.q_start + row + i, head));
}

std::vector<float> load_keys(const Problem& p, const Layout& x, const Sequence& s, int64_t head, int64_t keys) {
  std::vector<float> rows(keys * p.head_dim);
  for (int64_t i = 0; i < keys; ++i) load(p, rows.data() + i * p.head_dim, key_row(p, x, s, i, head));
  return rows;
}

struct Matrix {
  float* data;
  int64_t rows, columns;
  bool transposed = false;

  Matrix t() const { return {data, columns, rows, !transposed}; }
  Tensor tensor() const {
    const std::vector<int64_t> strides = transposed ? std::vector<int64_t>{1, rows} : std::vector<int64_t>{columns, 1};
    return at::from_blob(data, {rows, columns}, strides, at::TensorOptions().dtype(at::kFloat));
  }
};

// to = a b, or to += a b
void multiply(const Matrix& to, const Matrix& a, const Matrix& b, bool add = false) {
  const c10::impl::ForceDispatchKeyGuard no_modes({}, c10::autograd_dispatch_keyset);
  const at::RecordFunctionGuard no_records(false);
  Tensor result = to.tensor();
  at::cpu::addmm_(result, a.tensor(), b.tensor(), add ? 1 : 0, 1);
}

// Threads pay off above some hundred thousand multiplications.
template <class Task>
void for_each_head(const Problem& p, int64_t heads, const Task& task) {
  int64_t work = 0;
  for (const Sequence& s : p.sequences) work += s.rows * s.keys * p.head_dim * heads;
  const auto tasks = static_cast<int64_t>(p.sequences.size()) * heads;
  const int64_t grain = std::max<int64_t>(1, tasks * 500'000 / std::max<int64_t>(1, work));
  at::parallel_for(0, tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(p.sequences[i / heads], i % heads);
  });
}

// ---- dropout -------------------------------------------------------------------------------------------------------

// Philox 4x32 with 7 rounds.
std::array<uint32_t, 4> philox(uint64_t seed, uint64_t subsequence, uint64_t offset) {
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  std::array<uint32_t, 4> counter = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32),
                                     static_cast<uint32_t>(subsequence), static_cast<uint32_t>(subsequence >> 32)};
  for (int round = 0; round < 7; ++round) {
    const uint64_t first = 0xD2511F53ull * counter[0], second = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Which elements of a block of scores are kept: keep[row * columns + column]. first_row is a multiple of 16 and
// first_column one of 32: a tile of 16 x 32 belongs to the 32 lanes of a warp, each holding 16 elements of it.
void draw_kept(const Dropout& dropout, int64_t stream, int64_t first_row, int64_t rows, int64_t first_column,
               int64_t columns, uint8_t* keep) {
  const auto threshold = static_cast<uint8_t>(std::floor(dropout.keep() * 255.0));
  for (int64_t tile_row = 0; tile_row * 16 < rows; ++tile_row)
    for (int64_t tile_column = 0; tile_column * 32 < columns; ++tile_column) {
      const uint64_t tile = static_cast<uint64_t>(first_row / 16 + tile_row) |
                            static_cast<uint64_t>(first_column / 32 + tile_column) << 32;
      for (int64_t lane = 0; lane < 32; ++lane) {
        const auto words = philox(dropout.seed, tile, dropout.offset + stream * 32 + lane);
        for (int64_t i = 0; i < 16; ++i) {
          const int64_t row = tile_row * 16 + lane / 4 + (i / 2) % 2 * 8;
          const int64_t column = tile_column * 32 + lane % 4 * 2 + i % 2 + i / 4 * 8;
          const auto drawn = static_cast<uint8_t>(words[i / 4] >> (i % 4 * 8));
          if (row < rows && column < columns) keep[row * columns + column] = drawn <= threshold;
        }
      }
    }
}

// ---- one block of scores -------------------------------------------------------------------------------------------

constexpr int64_t kRows = 64;  // query rows at a time

struct Block {
  int64_t row, rows;        // of the queries of the sequence
  int64_t column, columns;  // of its keys; what no row of the block sees is left out
};

Block block_at(const Problem& p, const Sequence& s, int64_t row) {
  const int64_t rows = std::min(kRows, s.computed_rows - row);
  const int64_t first = p.scoring.first_key(row, s.rows, s.keys) / 32 * 32;
  const int64_t end = p.scoring.end_of_keys(row + rows - 1, s.rows, s.keys);
  return {row, rows, first, std::max<int64_t>(0, end - first)};
}

// The columns of the block that its i-th row sees.
std::pair<int64_t, int64_t> seen(const Problem& p, const Sequence& s, const Block& block, int64_t i) {
  const int64_t first = p.scoring.first_key(block.row + i, s.rows, s.keys) - block.column;
  const int64_t end = p.scoring.end_of_keys(block.row + i, s.rows, s.keys) - block.column;
  return {std::clamp<int64_t>(first, 0, block.columns), std::clamp<int64_t>(end, 0, block.columns)};
}

// Products of queries and keys to logits, in place; those of what a row does not see are not touched.
void score(const Problem& p, const Sequence& s, const Block& block, int64_t head, float* products) {
  const Scoring& scoring = p.scoring;
  const float slope = scoring.slope(s.index, head);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = products + i * block.columns;
    const auto [first, end] = seen(p, s, block, i);
    if (scoring.softcap > 0)
      for (int64_t j = first; j < end; ++j)
        row[j] = scoring.softcap * std::tanh(row[j] * (scoring.scale / scoring.softcap));
    else
      for (int64_t j = first; j < end; ++j) row[j] *= scoring.scale;
    if (slope == 0) continue;
    const int64_t own_key = block.row + i + s.keys - s.rows;
    for (int64_t j = first; j < end; ++j) {
      const int64_t key = block.column + j;
      row[j] += slope * static_cast<float>(scoring.causal ? key : -std::abs(own_key - key));
    }
  }
}

// ---- forward -------------------------------------------------------------------------------------------------------

// Logits to exp(logit - max), zero where nothing is seen; returns the row's sum and its logsumexp.
std::pair<float, float> exponentiate(float* row, int64_t columns, int64_t first, int64_t end) {
  float highest = -kInfinity, sum = 0;
  for (int64_t j = first; j < end; ++j) highest = std::max(highest, row[j]);
  const float reference = highest == -kInfinity ? 0.f : highest;
  std::fill(row, row + std::min(first, columns), 0.f);
  for (int64_t j = first; j < end; ++j) {
    row[j] = std::exp(row[j] - reference);
    sum += row[j];
  }
  if (end >= first) std::fill(row + end, row + columns, 0.f);
  const bool nothing = sum == 0.f || std::isnan(sum);
  return {nothing ? 1.f : sum, nothing ? kInfinity : reference + std::log(sum)};
}

void write_probabilities(const Problem& p, const Sequence& s, const Block& block, int64_t head, int64_t i,
                         const float* row, float sum, const uint8_t* keep) {
  const Tensor& all = p.probabilities;
  auto* to = static_cast<uint16_t*>(all.data_ptr()) + s.index * all.stride(0) + head * all.stride(1) +
             (block.row + i) * all.stride(2) + block.column;
  const int64_t columns = std::min(block.columns, all.size(3) - block.column);
  for (int64_t j = 0; j < columns; ++j) {
    const float signed_value = (keep[j] ? row[j] : -row[j]) / sum;
    to[j] = p.dtype == at::kHalf ? c10::Half(signed_value).x : c10::BFloat16(signed_value).x;
  }
}

void forward_head(const Problem& p, const Sequence& s, int64_t head) {
  const int64_t d = p.head_dim, head_k = head / p.group();
  std::vector<float> k = load_keys(p, p.k, s, head_k, s.keys), v = load_keys(p, p.v, s, head_k, s.keys);
  std::vector<float> q(kRows * d), out(kRows * d), scores(kRows * s.keys);
  std::vector<uint8_t> keep(p.dropout.p > 0 ? kRows * s.keys : 0);
  float* lse = rows_of(p.lse, s, head);

  for (int64_t row = 0; row < s.computed_rows; row += kRows) {
    const Block block = block_at(p, s, row);
    std::vector<float> factors(block.rows, 1.f);
    if (block.columns == 0) {  // no key for any of these rows
      std::fill(out.begin(), out.end(), 0.f);
      std::fill(lse + row, lse + row + block.rows, kInfinity);
    } else {
      const Matrix queries{q.data(), block.rows, d}, products{scores.data(), block.rows, block.columns};
      load_queries(p, p.q, s, head, row, block.rows, q.data());
      multiply(products, queries, Matrix{k.data() + block.column * d, block.columns, d}.t());
      score(p, s, block, head, scores.data());
      if (p.dropout.p > 0)
        draw_kept(p.dropout, s.index * p.heads + head, row, block.rows, block.column, block.columns, keep.data());
      for (int64_t i = 0; i < block.rows; ++i) {
        float* weights = scores.data() + i * block.columns;
        const auto [first, end] = seen(p, s, block, i);
        const auto [sum, logsumexp] = exponentiate(weights, block.columns, first, end);
        lse[row + i] = logsumexp;
        factors[i] = p.dropout.scale() / sum;
        if (p.dropout.p == 0) continue;
        const uint8_t* kept = keep.data() + i * block.columns;
        if (p.probabilities.defined()) write_probabilities(p, s, block, head, i, weights, sum, kept);
        for (int64_t j = first; j < end; ++j) weights[j] = kept[j] ? weights[j] : 0.f;
      }
      multiply({out.data(), block.rows, d}, products, {v.data() + block.column * d, block.columns, d});
    }
    for (int64_t i = 0; i < block.rows; ++i)
      store(p, p.out.at(s.q_batch, s.q_start + row + i, head), out.data() + i * d, factors[i]);
  }
}

void run_forward(const Problem& p) {
  for_each_head(p, p.heads, [&](const Sequence& s, int64_t head) { forward_head(p, s, head); });
}

// ---- backward ------------------------------------------------------------------------------------------------------

// Forward's `out` and `lse` are taken as given, as the kernel does: parts of one softmax (ring attention) stay right.
void backward_group(const Problem& p, const Sequence& s, int64_t head_k) {
  const int64_t d = p.head_dim, keys = s.computed_keys;
  std::vector<float> k = load_keys(p, p.k, s, head_k, s.keys), v = load_keys(p, p.v, s, head_k, s.keys);
  std::vector<float> dk(s.keys * d, 0.f), dv(s.keys * d, 0.f);
  std::vector<float> q(kRows * d), out(kRows * d), dout(kRows * d), dq(kRows * d);
  std::vector<float> weights(kRows * s.keys), slopes(kRows * s.keys), kept_weights(kRows * s.keys);
  std::vector<uint8_t> keep(p.dropout.p > 0 ? kRows * s.keys : 0);

  for (int64_t head = head_k * p.group(); head < (head_k + 1) * p.group(); ++head) {
    const float* lse = rows_of(p.lse, s, head);
    float* dot = rows_of(p.dot, s, head);
    for (int64_t row = 0; row < s.computed_rows; row += kRows) {
      Block block = block_at(p, s, row);
      block.columns = std::min(block.columns, std::max<int64_t>(0, keys - block.column));
      load_queries(p, p.out, s, head, row, block.rows, out.data());
      load_queries(p, p.dout, s, head, row, block.rows, dout.data());
      std::vector<float> dots(block.rows);
      for (int64_t i = 0; i < block.rows; ++i) {
        for (int64_t j = 0; j < d; ++j) dots[i] += dout[i * d + j] * out[i * d + j];
        dot[row + i] = dots[i] * p.dropout.keep();
      }
      if (block.columns == 0) {
        std::fill(dq.begin(), dq.end(), 0.f);
      } else {
        const Matrix queries{q.data(), block.rows, d}, gradients{dout.data(), block.rows, d};
        const Matrix block_k{k.data() + block.column * d, block.columns, d};
        const Matrix block_v{v.data() + block.column * d, block.columns, d};
        const Matrix products{weights.data(), block.rows, block.columns};
        const Matrix dscores{slopes.data(), block.rows, block.columns};
        load_queries(p, p.q, s, head, row, block.rows, q.data());
        multiply(products, queries, block_k.t());
        multiply(dscores, gradients, block_v.t());
        score(p, s, block, head, weights.data());
        if (p.dropout.p > 0)
          draw_kept(p.dropout, s.index * p.heads + head, row, block.rows, block.column, block.columns, keep.data());
        const float slope = p.scoring.slope(s.index, head);
        for (int64_t i = 0; i < block.rows; ++i) {
          const auto [first, end] = seen(p, s, block, i);
          const int64_t own_key = row + i + s.keys - s.rows;
          for (int64_t j = 0; j < block.columns; ++j) {
            const int64_t at = i * block.columns + j;
            const bool visible = j >= first && j < end;
            const float kept = !visible ? 0.f : p.dropout.p == 0 ? 1.f : keep[at] ? p.dropout.scale() : 0.f;
            const float logit = weights[at];
            const float weight = visible ? std::exp(logit - lse[row + i]) : 0.f;
            float slope_of_cap = 1;
            if (p.scoring.softcap > 0 && visible) {
              const int64_t key = block.column + j;
              const float bias = slope * static_cast<float>(p.scoring.causal ? key : -std::abs(own_key - key));
              const float tanh = (logit - bias) / p.scoring.softcap;
              slope_of_cap = 1 - tanh * tanh;
            }
            kept_weights[at] = weight * kept;
            slopes[at] = visible ? weight * (slopes[at] * kept - dots[i]) * slope_of_cap * p.scoring.scale : 0.f;
          }
        }
        const Matrix kept_products{kept_weights.data(), block.rows, block.columns};
        multiply({dv.data() + block.column * d, block.columns, d}, kept_products.t(), gradients, /*add=*/true);
        multiply({dk.data() + block.column * d, block.columns, d}, dscores.t(), queries, /*add=*/true);
        multiply({dq.data(), block.rows, d}, dscores, block_k);
      }
      for (int64_t i = 0; i < block.rows; ++i)
        store(p, p.dq.at(s.q_batch, s.q_start + row + i, head), dq.data() + i * d);
    }
  }
  for (int64_t i = 0; i < keys; ++i) {
    store(p, p.dk.at(s.k_batch, s.k_start + i, head_k), dk.data() + i * d);
    store(p, p.dv.at(s.k_batch, s.k_start + i, head_k), dv.data() + i * d);
  }
}

void run_backward(const Problem& p) {
  for_each_head(p, p.heads_k, [&](const Sequence& s, int64_t head_k) { backward_group(p, s, head_k); });
}

// ---- what the entry points share -----------------------------------------------------------------------------------

int64_t round_up(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

Tensor padded(const Tensor& x) {
  const int64_t missing = round_up(x.size(-1), 8) - x.size(-1);
  return missing ? at::constant_pad_nd(x, {0, missing}) : x;
}

Tensor without_padding(const Tensor& x, int64_t head_dim) { return x.size(-1) == head_dim ? x : x.narrow(-1, 0, head_dim); }

// What a forward or backward needs beyond its tensors; raises as the real one does while filling its parameters.
void set_scoring(Problem& p, float scale, float softcap, int left, int right, int64_t max_seqlen_k, float p_dropout) {
  TORCH_CHECK(p_dropout < 1.f);
  p.dropout.p = std::max(p_dropout, 0.f);  // the kernels ask whether less than everything is kept
  p.scoring.scale = scale;
  p.scoring.softcap = softcap;
  p.scoring.set_window(left, right, max_seqlen_k);
}

void set_alibi(Problem& p, const MaybeTensor& alibi_slopes_, int64_t batch_size, int64_t num_heads) {
  if (!alibi_slopes_) return;
  const Tensor& alibi_slopes = *alibi_slopes_;
  TORCH_CHECK(alibi_slopes.dtype() == at::kFloat, "ALiBi slopes must have dtype fp32");
  check_device(alibi_slopes, "alibi_slopes");
  check_last_dimension(alibi_slopes, "ALiBi slopes tensor");
  namespace torch = at;  // the text of the failed condition is the message
  TORCH_CHECK(alibi_slopes.sizes() == torch::IntArrayRef({num_heads}) || alibi_slopes.sizes() == torch::IntArrayRef({batch_size, num_heads}));
  p.scoring.slopes = static_cast<const float*>(alibi_slopes.data_ptr());
  p.scoring.slopes_batch_stride = alibi_slopes.dim() == 2 ? alibi_slopes.stride(0) : 0;
}

// Seed and offset of a dropout, drawn from the generator as torch.manual_seed left it.
Tensor draw_rng_state(Problem& p, const std::optional<at::Generator>& generator) {
  Tensor state = at::zeros({2}, at::TensorOptions().dtype(at::kLong));
  if (p.dropout.p == 0) return state;
  auto* cpu = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  std::lock_guard<std::mutex> lock(cpu->mutex_);
  p.dropout.seed = cpu->random64();
  p.dropout.offset = 0;
  auto* numbers = static_cast<int64_t*>(state.data_ptr());
  numbers[0] = static_cast<int64_t>(p.dropout.seed);
  return state;
}

void set_dropout_of_forward(Problem& p, const MaybeTensor& rng_state, const std::optional<at::Generator>& generator) {
  if (p.dropout.p == 0) return;
  if (!rng_state) {
    draw_rng_state(p, generator);
    return;
  }
  check_memory(rng_state->numel() >= 2 && rng_state->dtype() == at::kLong, "rng_state is not two int64 numbers");
  const auto* numbers = static_cast<const int64_t*>(rng_state->data_ptr());
  p.dropout.seed = static_cast<uint64_t>(numbers[0]);
  p.dropout.offset = static_cast<uint64_t>(numbers[1]);
}

std::vector<Sequence> dense_sequences(int64_t batch, int64_t rows, int64_t keys) {
  std::vector<Sequence> sequences(batch);
  for (int64_t b = 0; b < batch; ++b) sequences[b] = {b, b, 0, rows, b, 0, keys, rows, keys, nullptr};
  return sequences;
}

const int* numbers_of(const Tensor& x) { return static_cast<const int*>(x.data_ptr()); }

// The kernels' grid covers max_seqlen, rounded up to their block of 128: what lies behind is silently left out.
std::vector<Sequence> packed_sequences(const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_k, int64_t max_seqlen_q,
                                       int64_t max_seqlen_k, int64_t total_q, int64_t total_k) {
  const int64_t batch = cu_seqlens_q.numel() - 1;
  const int *q = numbers_of(cu_seqlens_q), *k = numbers_of(cu_seqlens_k);
  std::vector<Sequence> sequences(batch);
  for (int64_t b = 0; b < batch; ++b) {
    Sequence& s = sequences[b];
    s = {b, 0, q[b], std::max(0, q[b + 1] - q[b]), 0, k[b], std::max(0, k[b + 1] - k[b]), 0, 0, nullptr};
    check_memory(s.q_start >= 0 && s.q_start + s.rows <= total_q, "cu_seqlens_q leaves q");
    check_memory(total_k < 0 || (s.k_start >= 0 && s.k_start + s.keys <= total_k), "cu_seqlens_k leaves k");
    s.computed_rows = std::min(s.rows, round_up(max_seqlen_q, 128));
    s.computed_keys = std::min(s.keys, round_up(max_seqlen_k, 128));
  }
  return sequences;
}

// Each sequence's used keys, left padding and pages, where given; total_k: rows that a sequence may reach.
void set_keys_of(Sequence& s, const MaybeTensor& used, const MaybeTensor& leftpad, const Tensor& block_table,
                 int64_t page) {
  const int64_t pad = leftpad ? numbers_of(*leftpad)[s.index] : 0;
  s.keys = (used ? numbers_of(*used)[s.index] : s.keys) - pad;
  s.k_start += pad;
  s.keys = std::max<int64_t>(0, s.keys);
  if (!block_table.defined()) return;
  s.blocks = numbers_of(block_table) + s.index * block_table.stride(0);
  s.k_start = 0;
  check_memory(s.keys <= block_table.size(1) * page, "more keys than block_table has pages for");
}

void check_pages(const Sequence& s, int64_t page, int64_t blocks) {
  for (int64_t i = 0; s.blocks && i * page < s.keys; ++i)
    check_memory(s.blocks[i] >= 0 && s.blocks[i] < blocks, "block_table names a block that is not there");
}

Problem problem_of(const Tensor& q, int64_t heads_k) {
  Problem p;
  p.dtype = q.scalar_type();
  p.heads = q.size(-2);
  p.heads_k = heads_k;
  p.head_dim = q.size(-1);
  return p;
}

Tensor empty_floats(IntArrayRef sizes, const Tensor& like) { return at::empty(sizes, like.options().dtype(at::kFloat)); }

RowLayout rows_layout(const Tensor& x, bool packed, int64_t padding = 0) {
  auto* data = static_cast<float*>(x.data_ptr());
  if (packed) return {data, 0, x.size(1), true, padding};
  return {data, x.size(1) * x.size(2), x.size(2), false, 0};
}

bool pads_heads() { return generation != kFlash27; }

// "head_size" or, while the extension padded the heads, "head_size_og"
const char* by_generation(const char* since_27, const char* before) { return pads_heads() ? before : since_27; }

// ---- fwd -----------------------------------------------------------------------------------------------------------

Tensors fwd(Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor& out_, MaybeTensor& alibi_slopes_, float p_dropout,
            float softmax_scale, bool is_causal, int window_left, int window_right, float softcap, bool return_softmax,
            std::optional<at::Generator> gen_) {
  check_gpu(q);
  check_dtypes(q, k, v);
  check_devices(q, k, v);
  check_inputs_contiguous(q, k, v);

  const int64_t batch = q.size(0), rows = q.size(1), heads = q.size(2), head_dim = q.size(3);
  const int64_t keys = k.size(1), heads_k = k.size(2);
  check_forward_sizes(batch, head_dim, heads, heads_k, generation == kFlash25, pads_heads());
  check_softcap(softcap, p_dropout);

  if (window_left >= keys) window_left = -1;
  if (window_right >= keys) window_right = -1;
  if (rows == 1 && !alibi_slopes_) is_causal = false;
  if (is_causal) window_right = 0;

  check_shape(q, {batch, rows, heads, head_dim}, "q",
              by_generation("batch_size, seqlen_q, num_heads, head_size", "batch_size, seqlen_q, num_heads, head_size_og"));
  const char* keys_shape = by_generation("batch_size, seqlen_k, num_heads_k, head_size",
                                         "batch_size, seqlen_k, num_heads_k, head_size_og");
  check_shape(k, {batch, keys, heads_k, head_dim}, "k", keys_shape);
  check_shape(v, {batch, keys, heads_k, head_dim}, "v", keys_shape);

  const Tensor q_padded = padded(q), k_padded = padded(k), v_padded = padded(v);
  Tensor out;
  if (out_) {
    out = *out_;
    check_given_output(out, q);
    check_shape(out, {batch, rows, heads, head_dim}, "out",
                by_generation("batch_size, sizes[1], sizes[2], head_size", "batch_size, sizes[1], sizes[2], head_size_og"));
    if (head_dim % 8 != 0) out = at::empty_like(q_padded);
  } else {
    out = at::empty_like(q_padded);
  }

  const Tensor lse = empty_floats({batch, heads, rows}, q);
  Problem p = problem_of(q_padded, heads_k);
  Tensor probabilities;
  if (return_softmax) {
    TORCH_CHECK(p_dropout > 0.0f, "return_softmax is only supported when p_dropout > 0.0");
    p.probabilities = probabilities = at::zeros({batch, heads, round_up(rows, 128), round_up(keys, 128)}, q.options());
  } else if (!pads_heads()) {
    probabilities = at::empty({0}, q.options());
  }
  set_scoring(p, softmax_scale, softcap, window_left, window_right, keys, p_dropout);
  const Tensor rng_state = draw_rng_state(p, gen_);
  set_alibi(p, alibi_slopes_, batch, heads);

  p.q = layout_of(q_padded);
  p.k = layout_of(k_padded);
  p.v = layout_of(v_padded);
  p.out = layout_of(out);
  p.lse = rows_layout(lse, /*packed=*/false);
  p.sequences = dense_sequences(batch, rows, keys);
  run_forward(p);

  if (!pads_heads()) return {out, lse, probabilities, rng_state};
  const Tensor result = without_padding(out, head_dim);
  if (out_ && head_dim % 8 != 0) out_->copy_(result);
  return {result, q_padded, k_padded, v_padded, out, lse, probabilities, rng_state};
}

// ---- varlen_fwd ----------------------------------------------------------------------------------------------------

Tensors varlen_fwd(Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor& out_, const Tensor& cu_seqlens_q,
                   const Tensor& cu_seqlens_k, MaybeTensor& seqused_k, MaybeTensor& leftpad_k_, MaybeTensor& block_table_,
                   MaybeTensor& alibi_slopes_, int max_seqlen_q, int max_seqlen_k, float p_dropout, float softmax_scale,
                   bool zero_tensors, bool is_causal, int window_left, int window_right, float softcap,
                   bool return_softmax, std::optional<at::Generator> gen_) {
  check_gpu(q);
  check_dtypes(q, k, v);
  check_int32(cu_seqlens_q, "cu_seqlens_q must have dtype int32");
  check_int32(cu_seqlens_k, "cu_seqlens_k must have dtype int32");
  check_devices(q, k, v);
  check_device(cu_seqlens_q, "cu_seqlens_q");
  check_device(cu_seqlens_k, "cu_seqlens_k");
  const bool paged = block_table_.has_value();
  const Tensor block_table = paged ? *block_table_ : Tensor();
  if (paged) check_block_table(block_table);
  check_inputs_contiguous(q, k, v);
  check_contiguous(cu_seqlens_q, "cu_seqlens_q");
  check_contiguous(cu_seqlens_k, "cu_seqlens_k");

  const int64_t batch = cu_seqlens_q.numel() - 1;
  const int64_t total_q = q.size(0), heads = q.size(1), head_dim = q.size(2), heads_k = paged ? k.size(2) : k.size(1);
  check_softcap(softcap, p_dropout);
  const int64_t page = paged ? k.size(1) : 1;
  TORCH_CHECK(page % 256 == 0 || !paged, "Paged KV cache block size must be divisible by 256");
  if (max_seqlen_q == 1 && !alibi_slopes_) is_causal = false;
  if (is_causal) window_right = 0;

  // One query a sequence: the kernel takes the heads of a group for the rows of one, and no longer reads cu_seqlens_q.
  const bool one_row_each = max_seqlen_q == 1 && heads > heads_k && window_left < 0 && window_right < 0 &&
                            p_dropout == 0.f && head_dim % 8 == 0 && !alibi_slopes_;
  if (one_row_each) q.reshape({batch, heads_k, heads / heads_k, head_dim});
  check_forward_sizes(batch, head_dim, heads, heads_k, /*misspelt=*/false, pads_heads());
  if (window_left >= max_seqlen_k) window_left = -1;
  if (window_right >= max_seqlen_k) window_right = -1;

  check_shape(q, {total_q, heads, head_dim}, "q",
              by_generation("total_q, num_heads, head_size", "total_q, num_heads, head_size_og"));
  if (paged) {
    const char* words = by_generation("num_blocks, page_block_size, num_heads_k, head_size",
                                      "num_blocks, page_block_size, num_heads_k, head_size_og");
    check_shape(k, {k.size(0), page, heads_k, head_dim}, "k", words);
    check_shape(v, {k.size(0), page, heads_k, head_dim}, "v", words);
    check_shape(block_table, {batch, block_table.size(1)}, "block_table", "batch_size, max_num_blocks_per_seq");
  } else {
    const char* words = by_generation("total_k, num_heads_k, head_size", "total_k, num_heads_k, head_size_og");
    check_shape(k, {k.size(0), heads_k, head_dim}, "k", words);
    check_shape(v, {k.size(0), heads_k, head_dim}, "v", words);
  }
  check_shape(cu_seqlens_q, {batch + 1}, "cu_seqlens_q", "batch_size + 1");
  check_shape(cu_seqlens_k, {batch + 1}, "cu_seqlens_k", "batch_size + 1");
  if (seqused_k) {
    check_int32(*seqused_k, "seqused_k must have dtype int32");
    TORCH_CHECK(seqused_k->is_cpu(), "seqused_k must be on CUDA device");
    check_contiguous(*seqused_k, "seqused_k");
    check_shape(*seqused_k, {batch}, "seqused_k_", "batch_size");
  }

  const Tensor q_padded = padded(q), k_padded = padded(k), v_padded = padded(v);
  Tensor out;
  if (out_) {
    out = *out_;
    check_given_output(out, q);
    const char* words = by_generation("sizes[0], sizes[1], head_size", "sizes[0], sizes[1], head_size_og");
    if (generation == kFlash25)
      check_shape(out, {one_row_each ? batch * (heads / heads_k) : total_q, one_row_each ? heads_k : heads, head_dim},
                  "out", "total_q, num_heads, head_size_og");
    check_shape(out, {total_q, heads, head_dim}, "out", words);
    if (head_dim % 8 != 0) out = at::empty_like(q_padded);
  } else {
    out = at::empty_like(q_padded);
  }

  const bool packed_lse = generation != kFlash25;
  const Tensor lse = packed_lse ? empty_floats({heads, total_q}, q)
                                : at::zeros({batch, heads, max_seqlen_q}, q.options().dtype(at::kFloat));
  Problem p = problem_of(q_padded, heads_k);
  Tensor probabilities;
  if (return_softmax) {
    TORCH_CHECK(p_dropout > 0.0f, "return_softmax is only supported when p_dropout > 0.0");
    p.probabilities = probabilities =
        at::zeros({batch, heads, round_up(max_seqlen_q, 128), round_up(max_seqlen_k, 128)}, q.options());
  } else if (!pads_heads()) {
    probabilities = at::empty({0}, q.options());
  }
  if (zero_tensors) {
    out.zero_();
    lse.fill_(-kInfinity);
  }
  set_scoring(p, softmax_scale, softcap, window_left, window_right, max_seqlen_k, p_dropout);
  if (leftpad_k_) check_leftpad(*leftpad_k_, paged, batch);
  const Tensor rng_state = draw_rng_state(p, gen_);
  set_alibi(p, alibi_slopes_, batch, heads);

  p.q = layout_of(q_padded);
  p.k = layout_of(k_padded);
  p.v = layout_of(v_padded);
  p.out = layout_of(out);
  p.lse = rows_layout(lse, packed_lse);
  p.page = page;
  p.sequences = packed_sequences(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, total_q, -1);
  for (Sequence& s : p.sequences) {
    if (one_row_each) s.q_start = s.index, s.rows = s.computed_rows = 1;
    if (!packed_lse) s.computed_rows = std::min<int64_t>(s.computed_rows, max_seqlen_q);
    if (max_seqlen_k <= 0) s.keys = 0;
    set_keys_of(s, seqused_k, leftpad_k_, block_table, page);
    if (paged) check_pages(s, page, k.size(0));
    else check_memory(s.keys == 0 || (s.k_start >= 0 && s.k_start + s.keys <= k.size(0)), "cu_seqlens_k leaves k");
  }
  run_forward(p);

  if (!pads_heads()) return {out, lse, probabilities, rng_state};
  const Tensor result = without_padding(out, head_dim);
  if (out_ && head_dim % 8 != 0) out_->copy_(result);
  return {result, q_padded, k_padded, v_padded, out, lse, probabilities, rng_state};
}

// ---- bwd, varlen_bwd -----------------------------------------------------------------------------------------------

struct Packing {  // what varlen_bwd has and bwd has not
  const Tensor& cu_seqlens_q;
  const Tensor& cu_seqlens_k;
  int max_seqlen_q;
  int max_seqlen_k;
  bool zero_tensors;
};

Tensor given_gradient(const MaybeTensor& given, const Tensor& of, const char* name, const char* same_dtype,
                      const char* words, IntArrayRef sizes) {
  if (!given) return at::empty_like(of);
  TORCH_CHECK(given->dtype() == of.dtype(), same_dtype);
  check_device(*given, name);
  check_last_dimension(*given, name);
  check_shape(*given, sizes, name, words);
  return *given;
}

Tensors backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                 const Tensor& softmax_lse, MaybeTensor& dq_, MaybeTensor& dk_, MaybeTensor& dv_,
                 const std::optional<Packing>& packing, MaybeTensor& alibi_slopes_, float p_dropout, float softmax_scale,
                 bool is_causal, int window_left, int window_right, float softcap, std::optional<at::Generator> gen_,
                 MaybeTensor& rng_state) {
  if (is_causal) window_right = 0;
  check_gpu(q);
  check_dtypes(q, k, v);
  TORCH_CHECK(out.dtype() == q.dtype(), "query and out must have the same dtype");
  TORCH_CHECK(dout.dtype() == q.dtype(), "query and dout must have the same dtype");
  if (packing) {
    check_int32(packing->cu_seqlens_q, "cu_seqlens_q must have dtype int32");
    check_int32(packing->cu_seqlens_k, "cu_seqlens_k must have dtype int32");
  }
  check_devices(q, k, v);
  check_device(out, "out");
  check_device(dout, "dout");
  check_device(softmax_lse, "softmax_lse");
  if (packing) {
    check_device(packing->cu_seqlens_q, "cu_seqlens_q");
    check_device(packing->cu_seqlens_k, "cu_seqlens_k");
  }
  check_inputs_contiguous(q, k, v);
  check_last_dimension(out, "out tensor");
  check_last_dimension(dout, "dout tensor");
  if (packing) {
    check_contiguous(packing->cu_seqlens_q, "cu_seqlens_q");
    check_contiguous(packing->cu_seqlens_k, "cu_seqlens_k");
  }

  const int64_t batch = packing ? packing->cu_seqlens_q.numel() - 1 : q.size(0);
  const int64_t heads = q.size(packing ? 1 : 2), head_dim = q.size(packing ? 2 : 3), heads_k = k.size(packing ? 1 : 2);
  const int64_t rows = packing ? packing->max_seqlen_q : q.size(1), keys = packing ? packing->max_seqlen_k : k.size(1);
  const int64_t own_head_dim = pads_heads() ? dout.size(packing ? 2 : 3) : head_dim;
  TORCH_CHECK(batch > 0, "batch size must be positive");
  TORCH_CHECK(head_dim % 8 == 0, "head_size should be a multiple of 8");
  TORCH_CHECK(head_dim <= 256, "FlashAttention backward only supports head dimension at most 256");
  if (generation == kFlash25 && head_dim > 192 && (head_dim <= 224 || p_dropout > 0))
    TORCH_CHECK(large_shared_memory(),
                "FlashAttention backward for head dim 256 with dropout, or head dim 224 with/without dropout requires "
                "A100/A800 or H100/H800");
  if (generation == kFlash26 && head_dim > 192 && p_dropout > 0)
    TORCH_CHECK(large_shared_memory(),
                "FlashAttention backward for head dim > 192 with dropout requires A100/A800 or H100/H800");
  check_heads(heads, heads_k);
  if (packing) check_softcap(softcap, p_dropout);
  TORCH_CHECK(head_dim == round_up(own_head_dim, 8), "head_size must be head_size_og rounded to a multiple of 8");
  if (!packing) check_softcap(softcap, p_dropout);
  if (window_left >= keys) window_left = -1;
  if (window_right >= keys) window_right = -1;

  const std::vector<int64_t> q_sizes = packing ? std::vector<int64_t>{q.size(0), heads, head_dim}
                                               : std::vector<int64_t>{batch, rows, heads, head_dim};
  const std::vector<int64_t> k_sizes = packing ? std::vector<int64_t>{k.size(0), heads_k, head_dim}
                                               : std::vector<int64_t>{batch, keys, heads_k, head_dim};
  std::vector<int64_t> dout_sizes = q_sizes;
  dout_sizes.back() = own_head_dim;
  const char* q_words = packing ? "total_q, num_heads, head_size" : "batch_size, seqlen_q, num_heads, head_size";
  const char* k_words = packing ? "total_k, num_heads_k, head_size" : "batch_size, seqlen_k, num_heads_k, head_size";
  const char* dout_words = !pads_heads() ? q_words
                           : packing     ? "total_q, num_heads, head_size_og"
                                         : "batch_size, seqlen_q, num_heads, head_size_og";
  check_shape(q, q_sizes, "q", q_words);
  check_shape(k, k_sizes, "k", k_words);
  check_shape(v, k_sizes, "v", k_words);
  check_shape(out, q_sizes, "out", q_words);
  check_shape(dout, dout_sizes, "dout", dout_words);
  if (packing) {
    check_shape(packing->cu_seqlens_q, {batch + 1}, "cu_seqlens_q", "batch_size + 1");
    check_shape(packing->cu_seqlens_k, {batch + 1}, "cu_seqlens_k", "batch_size + 1");
  }
  const Tensor dq = given_gradient(dq_, q, "dq", "dq must have the same dtype as q", q_words, q_sizes);
  const Tensor dk = given_gradient(dk_, k, "dk", "dk must have the same dtype as q", k_words, k_sizes);
  const Tensor dv = given_gradient(dv_, v, "dv", "dv must have the same dtype as q", k_words, k_sizes);
  const Tensor dout_padded = padded(dout);

  const bool packed_lse = packing && generation != kFlash25;
  const auto floats = q.options().dtype(at::kFloat);
  const Tensor dot = packed_lse ? at::zeros({heads, q.size(0) + 128 * batch}, floats)
                                : at::zeros({batch, heads, round_up(rows, 128)}, floats);
  if (packing && packing->zero_tensors)
    for (const Tensor& x : {dq, dk, dv}) x.zero_();

  Problem p = problem_of(q, heads_k);
  set_scoring(p, softmax_scale, softcap, window_left, window_right, keys, p_dropout);
  set_dropout_of_forward(p, rng_state, gen_);
  set_alibi(p, alibi_slopes_, batch, heads);
  const int64_t lse_rows = packed_lse ? heads * q.size(0) : batch * heads * rows;
  check_memory(softmax_lse.nbytes() >= lse_rows * sizeof(float), "softmax_lse is too short");

  p.q = layout_of(q);
  p.k = layout_of(k);
  p.v = layout_of(v);
  p.out = layout_of(out);
  p.dout = layout_of(dout_padded);
  p.dq = layout_of(dq);
  p.dk = layout_of(dk);
  p.dv = layout_of(dv);
  auto* lse = static_cast<float*>(softmax_lse.data_ptr());
  p.lse = packed_lse ? RowLayout{lse, 0, q.size(0), true, 0} : RowLayout{lse, heads * rows, rows, false, 0};
  p.dot = rows_layout(dot, packed_lse, 128);
  p.sequences = packing ? packed_sequences(packing->cu_seqlens_q, packing->cu_seqlens_k, packing->max_seqlen_q,
                                           packing->max_seqlen_k, q.size(0), k.size(0))
                        : dense_sequences(batch, rows, keys);
  if (packing && !packed_lse)
    for (Sequence& s : p.sequences) s.computed_rows = std::min(s.computed_rows, rows);
  // flash_bwd_launch_template.h, run_mha_bwd_hdim256: since 2.7.3 nothing refuses this before.
  TORCH_CHECK(!(small_shared_memory() && head_dim > 192 && p.dropout.p > 0),
              "CPU stand-in: for head dim > 192 with dropout flash-attn launches no backward kernel on this GPU and says "
              "nothing; gradients are what was in memory");
  run_backward(p);

  return {without_padding(dq, own_head_dim), without_padding(dk, own_head_dim), without_padding(dv, own_head_dim), dot};
}

Tensors bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
            const Tensor& softmax_lse, MaybeTensor& dq, MaybeTensor& dk, MaybeTensor& dv, MaybeTensor& alibi_slopes,
            float p_dropout, float softmax_scale, bool is_causal, int window_left, int window_right, float softcap,
            bool /*deterministic: always*/, std::optional<at::Generator> gen, MaybeTensor& rng_state) {
  return backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, std::nullopt, alibi_slopes, p_dropout, softmax_scale,
                  is_causal, window_left, window_right, softcap, gen, rng_state);
}

Tensors varlen_bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                   const Tensor& softmax_lse, MaybeTensor& dq, MaybeTensor& dk, MaybeTensor& dv,
                   const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_k, MaybeTensor& alibi_slopes, int max_seqlen_q,
                   int max_seqlen_k, float p_dropout, float softmax_scale, bool zero_tensors, bool is_causal,
                   int window_left, int window_right, float softcap, bool /*deterministic: always*/,
                   std::optional<at::Generator> gen, MaybeTensor& rng_state) {
  const Packing packing{cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, zero_tensors};
  return backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, packing, alibi_slopes, p_dropout, softmax_scale, is_causal,
                  window_left, window_right, softcap, gen, rng_state);
}

// ---- fwd_kvcache -----------------------------------------------------------------------------------------------------

struct Rotary {
  const uint16_t* cosines;
  const uint16_t* sines;
  int64_t dim;  // of a head; the rest is not rotated
  bool interleaved;
};

void rotate(const Problem& p, const Rotary& rotary, int64_t position, uint16_t* to, const uint16_t* from) {
  Problem half = p;
  half.head_dim = rotary.dim / 2;
  std::vector<float> row(p.head_dim), result(p.head_dim), cosine(half.head_dim), sine(half.head_dim);
  load(p, row.data(), from);
  load(half, cosine.data(), rotary.cosines + position * half.head_dim);
  load(half, sine.data(), rotary.sines + position * half.head_dim);
  result = row;
  for (int64_t i = 0; i < half.head_dim; ++i) {
    const int64_t a = rotary.interleaved ? 2 * i : i, b = rotary.interleaved ? 2 * i + 1 : i + half.head_dim;
    result[a] = row[a] * cosine[i] - row[b] * sine[i];
    result[b] = row[a] * sine[i] + row[b] * cosine[i];
  }
  store(p, to, result.data());
}

std::optional<Rotary> checked_rotary(const Tensor& q, int64_t head_dim, int64_t cache_keys, bool appends,
                                     const MaybeTensor& cosines, const MaybeTensor& sines, bool interleaved) {
  if (!cosines) return std::nullopt;
  TORCH_CHECK(appends, "If rotary cos/sin are provided, new key / value to be appended to KV cache must also be provided");
  check_device(*cosines, "rotary_cos");
  const int64_t positions = cosines->size(0), dim = cosines->size(1) * 2;
  TORCH_CHECK(dim <= head_dim, "rotary_dim must be <= headdim");
  TORCH_CHECK(dim % 16 == 0, "Only rotary dimensions divisible by 16 are currently supported");
  TORCH_CHECK(positions >= cache_keys, "cos/sin seqlen must be at least the seqlen of KV cache");
  check_shape(*cosines, {positions, dim / 2}, "rotary_cos", "seqlen_ro, params.rotary_dim / 2");
  check_contiguous(*cosines, "rotary_cos");
  TORCH_CHECK(cosines->dtype() == q.dtype(), "rotary_cos must have the same dtype as query");
  TORCH_CHECK(sines.has_value(), "If rotary cos is provided, rotary sin must also be provided");
  check_device(*sines, "rotary_sin");
  check_shape(*sines, {positions, dim / 2}, "rotary_sin", "seqlen_ro, params.rotary_dim / 2");
  check_contiguous(*sines, "rotary_sin");
  TORCH_CHECK(sines->dtype() == q.dtype(), "rotary_cos must have the same dtype as query");
  return Rotary{static_cast<const uint16_t*>(cosines->data_ptr()), static_cast<const uint16_t*>(sines->data_ptr()), dim,
                interleaved};
}

void check_new_keys(const Tensor& q, const MaybeTensor& k_, const MaybeTensor& v_, bool lengths_given, int64_t cache_keys,
                    IntArrayRef sizes) {
  TORCH_CHECK(v_.has_value(), "If key is supplied, value must also be passed in");
  TORCH_CHECK(lengths_given, "If key is supplied, seqlens_k must also be passed in");
  TORCH_CHECK(q.size(1) <= cache_keys, "If key is supplied, it must have seqlen <= the seqlen of the KV cache");
  TORCH_CHECK(k_->dtype() == q.dtype(), "Key must have the same dtype as query");
  TORCH_CHECK(v_->dtype() == q.dtype(), "Value must have the same dtype as query");
  check_device(*k_, "k");
  check_device(*v_, "v");
  check_last_dimension(*k_, "Key tensor");
  check_last_dimension(*v_, "Value tensor");
  check_shape(*k_, sizes, "k", "batch_size, seqlen_knew, num_heads_k, head_size_og");
  check_shape(*v_, sizes, "v", "batch_size, seqlen_knew, num_heads_k, head_size_og");
}

Tensors fwd_kvcache(Tensor& q, const Tensor& kcache, const Tensor& vcache, MaybeTensor& k_, MaybeTensor& v_,
                    MaybeTensor& seqlens_k_, MaybeTensor& rotary_cos_, MaybeTensor& rotary_sin_,
                    MaybeTensor& cache_batch_idx_, MaybeTensor& leftpad_k_, MaybeTensor& block_table_,
                    MaybeTensor& alibi_slopes_, MaybeTensor& out_, float softmax_scale, bool is_causal, int window_left,
                    int window_right, float softcap, bool is_rotary_interleaved, int num_splits) {
  check_gpu(q);
  check_dtypes(q, kcache, vcache);
  check_devices(q, kcache, vcache, "kcache", "vcache");
  check_inputs_contiguous(q, kcache, vcache);
  const bool paged = block_table_.has_value();
  const Tensor block_table = paged ? *block_table_ : Tensor();
  if (paged) {
    TORCH_CHECK(!cache_batch_idx_, "Paged KVcache does not support cache_batch_idx");
    check_block_table(block_table);
  }
  const int64_t batch = q.size(0), rows = q.size(1), heads = q.size(2), head_dim = q.size(3), heads_k = kcache.size(2);
  const int64_t page = paged ? kcache.size(1) : 1, keys = paged ? block_table.size(1) * page : kcache.size(1);
  TORCH_CHECK(!paged || page % 256 == 0, "Paged KV cache block size must be divisible by 256");
  check_forward_sizes(batch, head_dim, heads, heads_k, generation == kFlash25, /*pads=*/true);
  if (rows == 1 && !alibi_slopes_) is_causal = false;
  if (is_causal) window_right = 0;
  if (window_left >= keys) window_left = -1;
  if (window_right >= keys) window_right = -1;

  check_shape(q, {batch, rows, heads, head_dim}, "q", "batch_size, seqlen_q, num_heads, head_size_og");
  const std::vector<int64_t> cache_sizes = {kcache.size(0), paged ? page : keys, heads_k, head_dim};
  const char* cache_words = paged ? "num_blocks, page_block_size, num_heads_k, head_size_og"
                                  : "batch_size_c, seqlen_k, num_heads_k, head_size_og";
  check_shape(kcache, cache_sizes, "kcache", cache_words);
  check_shape(vcache, cache_sizes, "vcache", cache_words);
  if (paged) check_shape(block_table, {batch, block_table.size(1)}, "block_table", "batch_size, max_num_blocks_per_seq");

  const Tensor kcache_padded = padded(kcache), vcache_padded = padded(vcache);
  Tensor q_padded = padded(q), out;
  if (out_) {
    out = *out_;
    check_given_output(out, q);
    check_shape(out, {batch, rows, heads, head_dim}, "out", "batch_size, seqlen_q, num_heads, head_size_og");
    if (head_dim % 8 != 0) out = at::empty_like(q_padded);
  } else {
    out = at::empty_like(q_padded);
  }
  const Tensor lse = empty_floats({batch, heads, rows}, q);
  Problem p = problem_of(q_padded, heads_k);
  set_scoring(p, softmax_scale, softcap, window_left, window_right, keys, 0.f);

  const int64_t new_keys = k_ ? k_->size(1) : 0;
  if (k_) check_new_keys(q, k_, v_, seqlens_k_.has_value(), keys, {batch, new_keys, heads_k, head_dim});
  if (seqlens_k_) {
    check_int32(*seqlens_k_, "seqlens_k must have dtype int32");
    check_device(*seqlens_k_, "seqlens_k");
    check_contiguous(*seqlens_k_, "seqlens_k");
    check_shape(*seqlens_k_, {batch}, "seqlens_k", "batch_size");
  }
  if (leftpad_k_) check_leftpad(*leftpad_k_, paged, batch);
  const auto rotary = checked_rotary(q, p.head_dim, keys, k_.has_value(), rotary_cos_, rotary_sin_, is_rotary_interleaved);
  if (cache_batch_idx_) {
    check_device(*cache_batch_idx_, "cache_batch_idx");
    check_contiguous(*cache_batch_idx_, "cache_batch_idx");
    check_int32(*cache_batch_idx_, "cache_batch_idx must have dtype int32");
  }
  TORCH_CHECK(num_splits <= 128, "num_splits > 128 not supported");
  set_alibi(p, alibi_slopes_, batch, heads);

  const Tensor k_padded = k_ ? padded(*k_) : Tensor(), v_padded = k_ ? padded(*v_) : Tensor();
  if (rotary) q_padded = q_padded.clone();
  p.q = layout_of(q_padded);
  p.k = layout_of(kcache_padded);
  p.v = layout_of(vcache_padded);
  p.out = layout_of(out);
  p.lse = rows_layout(lse, /*packed=*/false);
  p.page = page;
  p.sequences = dense_sequences(batch, rows, keys);
  for (Sequence& s : p.sequences) {
    const int64_t b = s.index;
    if (cache_batch_idx_) s.k_batch = numbers_of(*cache_batch_idx_)[b];
    check_memory(paged || (s.k_batch >= 0 && s.k_batch < kcache.size(0)), "cache_batch_idx leaves the cache");
    set_keys_of(s, seqlens_k_, leftpad_k_, block_table, page);
    const int64_t cached = s.keys, pad = s.k_start;
    s.keys += new_keys;
    check_memory(s.k_start >= 0 && s.k_start + s.keys <= keys, "cache_seqlens, with what is appended, leaves the cache");
    check_pages(s, page, kcache.size(0));
    for (int64_t head = 0; k_ && head < heads_k; ++head)
      for (int64_t i = 0; i < new_keys; ++i) {
        uint16_t *to = key_row(p, p.k, s, cached + i, head), *from = layout_of(k_padded).at(b, i, head);
        if (rotary) rotate(p, *rotary, cached + i + pad, to, from);
        else std::copy(from, from + p.head_dim, to);
        from = layout_of(v_padded).at(b, i, head);
        std::copy(from, from + p.head_dim, key_row(p, p.v, s, cached + i, head));
      }
    // Without a causal or local mask all queries stand at the first new position.
    const bool one_position = !p.scoring.causal && p.scoring.left < 0 && p.scoring.right < 0;
    for (int64_t head = 0; rotary && head < heads; ++head)
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t position = cached + pad + (one_position ? 0 : i);
        check_memory(position < rotary_cos_->size(0), "rotary_cos is shorter than the positions of the queries");
        rotate(p, *rotary, position, p.q.at(b, i, head), p.q.at(b, i, head));
      }
  }
  run_forward(p);

  const Tensor result = without_padding(out, head_dim);
  if (head_dim % 8 != 0) {
    if (out_) out_->copy_(result);
    if (k_) {
      kcache.copy_(without_padding(kcache_padded, head_dim));
      vcache.copy_(without_padding(vcache_padded, head_dim));
    }
  }
  return {result, lse};
}

// ---- signatures of flash-attn 2.5: no softcap, no leftpad_k ----------------------------------------------------------

Tensors fwd_25(Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor& out, MaybeTensor& alibi_slopes, float p_dropout,
               float softmax_scale, bool is_causal, int window_left, int window_right, bool return_softmax,
               std::optional<at::Generator> gen) {
  return fwd(q, k, v, out, alibi_slopes, p_dropout, softmax_scale, is_causal, window_left, window_right, 0.f,
             return_softmax, gen);
}

Tensors varlen_fwd_25(Tensor& q, const Tensor& k, const Tensor& v, MaybeTensor& out, const Tensor& cu_seqlens_q,
                      const Tensor& cu_seqlens_k, MaybeTensor& seqused_k, MaybeTensor& block_table,
                      MaybeTensor& alibi_slopes, int max_seqlen_q, int max_seqlen_k, float p_dropout, float softmax_scale,
                      bool zero_tensors, bool is_causal, int window_left, int window_right, bool return_softmax,
                      std::optional<at::Generator> gen) {
  MaybeTensor leftpad_k;
  return varlen_fwd(q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table, alibi_slopes,
                    max_seqlen_q, max_seqlen_k, p_dropout, softmax_scale, zero_tensors, is_causal, window_left,
                    window_right, 0.f, return_softmax, gen);
}

Tensors bwd_25(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
               const Tensor& softmax_lse, MaybeTensor& dq, MaybeTensor& dk, MaybeTensor& dv, MaybeTensor& alibi_slopes,
               float p_dropout, float softmax_scale, bool is_causal, int window_left, int window_right,
               bool deterministic, std::optional<at::Generator> gen, MaybeTensor& rng_state) {
  return bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, alibi_slopes, p_dropout, softmax_scale, is_causal, window_left,
             window_right, 0.f, deterministic, gen, rng_state);
}

Tensors varlen_bwd_25(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                      const Tensor& softmax_lse, MaybeTensor& dq, MaybeTensor& dk, MaybeTensor& dv,
                      const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_k, MaybeTensor& alibi_slopes, int max_seqlen_q,
                      int max_seqlen_k, float p_dropout, float softmax_scale, bool zero_tensors, bool is_causal,
                      int window_left, int window_right, bool deterministic, std::optional<at::Generator> gen,
                      MaybeTensor& rng_state) {
  return varlen_bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, alibi_slopes, max_seqlen_q,
                    max_seqlen_k, p_dropout, softmax_scale, zero_tensors, is_causal, window_left, window_right, 0.f,
                    deterministic, gen, rng_state);
}

Tensors fwd_kvcache_25(Tensor& q, const Tensor& kcache, const Tensor& vcache, MaybeTensor& k, MaybeTensor& v,
                       MaybeTensor& seqlens_k, MaybeTensor& rotary_cos, MaybeTensor& rotary_sin,
                       MaybeTensor& cache_batch_idx, MaybeTensor& block_table, MaybeTensor& alibi_slopes,
                       MaybeTensor& out, float softmax_scale, bool is_causal, int window_left, int window_right,
                       bool is_rotary_interleaved, int num_splits) {
  MaybeTensor leftpad_k;
  return fwd_kvcache(q, kcache, vcache, k, v, seqlens_k, rotary_cos, rotary_sin, cache_batch_idx, leftpad_k, block_table,
                     alibi_slopes, out, softmax_scale, is_causal, window_left, window_right, 0.f, is_rotary_interleaved,
                     num_splits);
}

}  // namespace

PYBIND11_MODULE(flash_attn_2_cuda, m) {
  const std::string version = version_being_imported();
  generation = generation_of(version);
  m.doc() = "FlashAttention, played on CPU by trueup's stand-in";
  m.attr("stand_in_for") = version;
  if (generation == kFlash25) {
    m.def("fwd", &fwd_25, "Forward pass");
    m.def("varlen_fwd", &varlen_fwd_25, "Forward pass (variable length)");
    m.def("bwd", &bwd_25, "Backward pass");
    m.def("varlen_bwd", &varlen_bwd_25, "Backward pass (variable length)");
    m.def("fwd_kvcache", &fwd_kvcache_25, "Forward pass, with KV-cache");
  } else {
    m.def("fwd", &fwd, "Forward pass");
    m.def("varlen_fwd", &varlen_fwd, "Forward pass (variable length)");
    m.def("bwd", &bwd, "Backward pass");
    m.def("varlen_bwd", &varlen_bwd, "Backward pass (variable length)");
    m.def("fwd_kvcache", &fwd_kvcache, "Forward pass, with KV-cache");
  }
  if (generation == kFlash27) py::module_::import("flash_attn_operators_on_cpu");
}
