// Which sanitizer this library itself is built with: kernels are compiled with the same one where the mode asks for it, and fiber
// switches are told to it.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KERNWRIGHT_BUILT_WITH_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define KERNWRIGHT_BUILT_WITH_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KERNWRIGHT_BUILT_WITH_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define KERNWRIGHT_BUILT_WITH_TSAN 1
#endif

// For a function in which fibers change. TSan follows calls by their entry and exit, and would leave one fiber's entries to another's
// exits; ASan may keep locals on a stack of its own, which a fiber's end destroys while the function still runs.
#if defined(KERNWRIGHT_BUILT_WITH_TSAN)
#define KERNWRIGHT_SWITCHES_FIBERS __attribute__((no_sanitize("thread")))
#elif defined(KERNWRIGHT_BUILT_WITH_ASAN)
#define KERNWRIGHT_SWITCHES_FIBERS __attribute__((no_sanitize("address")))
#else
#define KERNWRIGHT_SWITCHES_FIBERS
#endif

namespace kernwright::host {

#if defined(KERNWRIGHT_BUILT_WITH_ASAN)
inline constexpr bool kBuiltWithAsan = true;
#else
inline constexpr bool kBuiltWithAsan = false;
#endif
#if defined(KERNWRIGHT_BUILT_WITH_TSAN)
inline constexpr bool kBuiltWithTsan = true;
#else
inline constexpr bool kBuiltWithTsan = false;
#endif

}  // namespace kernwright::host
