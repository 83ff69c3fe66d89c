// platform/spin.h - the pause between two looks at a word that another thread will change.
#pragma once

namespace colibri {

// Tells the core that this is a waiting loop. Defined once per architecture.
void SpinPause();

}  // namespace colibri
