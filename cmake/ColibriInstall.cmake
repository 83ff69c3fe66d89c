# What `cmake --install` puts where: the program with its man page, completions and default model; the library with its
# headers and the package configuration for find_package(colibri).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(colibri_data_dir ${CMAKE_INSTALL_DATADIR}/colibri)
set(colibri_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/colibri)

# The library: the C API and all below it as one shared object that shows nothing else.
if(TARGET colibri_api)
  add_library(colibri SHARED ${PROJECT_SOURCE_DIR}/cmake/exports.cc)
  target_link_libraries(colibri PRIVATE colibri_flags "$<LINK_LIBRARY:WHOLE_ARCHIVE,colibri_api>")
  target_link_options(colibri PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/colibri.map")
  target_include_directories(colibri INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(colibri INTERFACE cxx_std_20)
  set_target_properties(colibri PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/colibri.map)
  add_library(colibri::colibri ALIAS colibri)

  install(TARGETS colibri EXPORT colibri-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/colibri DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT colibri-targets NAMESPACE colibri:: DESTINATION ${colibri_package_dir})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/colibri-config.cmake.in
    ${PROJECT_BINARY_DIR}/cmake/colibri-config.cmake INSTALL_DESTINATION ${colibri_package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/colibri-config-version.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES
    ${PROJECT_BINARY_DIR}/cmake/colibri-config.cmake ${PROJECT_BINARY_DIR}/cmake/colibri-config-version.cmake
    DESTINATION ${colibri_package_dir})
endif()

# The program, and what it prints about itself.
if(TARGET colibri_program)
  # colibri_printed(OUTPUT ARGUMENTS ...): a file with what the program prints for these arguments.
  function(colibri_printed output)
    get_filename_component(folder ${output} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${output} COMMAND colibri_program ${ARGN} > ${output} DEPENDS colibri_program VERBATIM)
  endfunction()
  set(printed ${PROJECT_BINARY_DIR}/printed)
  colibri_printed(${printed}/man/colibri.1 man)
  colibri_printed(${printed}/bash/colibri completion bash)
  colibri_printed(${printed}/zsh/_colibri completion zsh)
  colibri_printed(${printed}/fish/colibri.fish completion fish)
  add_custom_target(colibri_printed ALL DEPENDS
    ${printed}/man/colibri.1 ${printed}/bash/colibri ${printed}/zsh/_colibri ${printed}/fish/colibri.fish)

  install(TARGETS colibri_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${printed}/man/colibri.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${printed}/bash/colibri DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${printed}/zsh/_colibri DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${printed}/fish/colibri.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/nano DESTINATION ${colibri_data_dir}/models)
foreach(paper LICENSE README.md)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${paper})
    install(FILES ${PROJECT_SOURCE_DIR}/${paper} DESTINATION ${CMAKE_INSTALL_DOCDIR})
  endif()
endforeach()
