// Every layer, for models.
#pragma once

#include "dlpipe/engine/layers/activation.h"     // IWYU pragma: export
#include "dlpipe/engine/layers/conv2d.h"         // IWYU pragma: export
#include "dlpipe/engine/layers/embedding.h"      // IWYU pragma: export
#include "dlpipe/engine/layers/layer_chain.h"    // IWYU pragma: export
#include "dlpipe/engine/layers/linear.h"         // IWYU pragma: export
#include "dlpipe/engine/layers/module.h"         // IWYU pragma: export
#include "dlpipe/engine/layers/norm.h"           // IWYU pragma: export
#include "dlpipe/engine/layers/pool.h"           // IWYU pragma: export
#include "dlpipe/engine/layers/sequential.h"     // IWYU pragma: export
#include "dlpipe/engine/layers/staged_module.h"  // IWYU pragma: export
#include "dlpipe/engine/layers/transformer.h"    // IWYU pragma: export
#include "dlpipe/engine/layers/upsample.h"       // IWYU pragma: export
