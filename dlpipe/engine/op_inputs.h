// The form in which apply() (op.cpp) hands inputs to a kernel: one dtype, the layout that the op works in,
// contiguous memory. Internal to the engine.
//
// These conversions are no nodes of the graph: its edges go to the tensors as the caller gave them, and
// backward gives every gradient the form of the tensor it belongs to.
#pragma once

#include <span>
#include <vector>

#include "dlpipe/engine/op.h"

namespace dlpipe::engine {

/// What the record and the thread's autocast say of dtypes; mixed ones become the wider one.
void apply_dtype_rule(const OpRecord& record, std::vector<Tensor>& inputs);
/// The first low dtype among the inputs; kF32: there is none.
DType low_dtype(std::span<const Tensor> inputs);

/// The choice of the cpu's kernels, or the record's; without one the layout that all images have, if the op
/// knows it.
LayoutChoice choose_layout(const OpRow& row, std::span<const Tensor> inputs, const Attrs& attrs);
/// Image inputs come into `layout`, all others become plain.
void lay_out_inputs(const OpRecord& record, std::vector<Tensor>& inputs, Layout layout);
/// Plain ones; blocked layouts have no strides.
void make_contiguous(std::vector<Tensor>& inputs);

}  // namespace dlpipe::engine
