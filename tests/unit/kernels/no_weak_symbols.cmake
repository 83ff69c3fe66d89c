# A shared inline function compiled with an instruction set's flags would be merged with everyone else's copy and crash an
# older machine: those object files may define nothing that a linker merges. Sanitizers add such symbols of their own.
if(TARGET colibri_kernels_isa AND CMAKE_NM AND NOT COLIBRI_SANITIZE)
  add_test(NAME unit.kernels.no_weak_symbols
    COMMAND ${CMAKE_COMMAND} -D "NM=${CMAKE_NM}" -D "OBJECTS=$<TARGET_OBJECTS:colibri_kernels_isa>"
      -P ${CMAKE_CURRENT_LIST_DIR}/no_weak_symbols_check.cmake)
  set_tests_properties(unit.kernels.no_weak_symbols PROPERTIES LABELS unit)
endif()
