// Order statistics of repeated measurements.
#pragma once

#include <vector>

namespace kernwright::support {

struct Spread {
  double median = 0, smallest = 0, largest = 0;
};
/// Zeros where there are no values. The median of an even number of values is the mean of the middle two.
Spread spread(std::vector<double> values);

}  // namespace kernwright::support
