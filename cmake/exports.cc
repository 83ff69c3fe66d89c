// The shared library is made of colibri_api's objects; CMake wants a source of its own.
