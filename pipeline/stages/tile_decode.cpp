#include "dlpipe/pipeline/stages/tile_decode.h"

#include "dlpipe/base/text.h"

namespace dlpipe::pipeline {

TileDecode::TileDecode(const Setup& setup)
    : setup_(&setup),
      capacity_(static_cast<size_t>(setup.options.batch)),
      scratch_begin_((capacity_ * sizeof(int32_t) + coef::kCoefAlignment - 1) / coef::kCoefAlignment *
                     coef::kCoefAlignment) {}

Result<TileDecode> TileDecode::create(const Setup& setup) {
  TileDecode decode(setup);
  Device& device = *setup.options.device;
  const size_t bytes = decode.scratch_begin_ + setup.device_decode.scratch_bytes;
  auto memory = Buffer::allocate(device, bytes);
  if (!memory.ok()) {
    return memory.status().with_context(concat("[loader] no memory on ", device.name(),
                                               " to decode batches: ", human_bytes(bytes),
                                               "; use a smaller --batch or --decode host: "));
  }
  decode.device_ = *std::move(memory);
  DLPIPE_ASSIGN_OR_RETURN(decode.statuses_, Buffer::allocate(device, decode.capacity_ * sizeof(int32_t),
                                                             Buffer::Memory::kPinned));
  return decode;
}

Status TileDecode::put(const coef::CoefWork& work, size_t tile_bytes, const BatchMemory& twin,
                       Stream& stream) {
  Device& device = *setup_->options.device;
  coef::CoefBatch batch;
  batch.tiles = twin.tiles();
  batch.tile_bytes = tile_bytes;
  batch.capacity = static_cast<int64_t>(capacity_);
  batch.work = work;
  batch.scratch = device_.data() + scratch_begin_;
  batch.pixels = reinterpret_cast<uint8_t*>(twin.field(setup_->image_field));
  batch.pixel_bytes = capacity_ * setup_->schema[static_cast<size_t>(setup_->image_field)].sample_bytes();
  batch.statuses = reinterpret_cast<int32_t*>(device_.data());
  setup_->device_decode.decode(batch, stream);
  return device.copy_async(statuses_.data(), device_.data(), statuses_.size_bytes(), CopyKind::kDeviceToHost,
                           stream);
}

}  // namespace dlpipe::pipeline
