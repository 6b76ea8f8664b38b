// What a record (an optimizer, a schedule, a loss) says about an option that it takes. A value.
#pragma once

namespace dlpipe::engine {

/// An option by its name on `dlpipe train`'s command line, and its value where nobody gives one, as it would
/// be written there ("0.9", "false"; "" for an empty list).
struct OptionDefault {
  const char* name;
  const char* value;
};

}  // namespace dlpipe::engine
