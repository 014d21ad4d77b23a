# libbaton and libbaton_otlp, static and shared, and what a program needs to find it: CMake package and pkg-config file.

include(CMakePackageConfigHelpers)

# The rooms that the library is made of; the program has more.
set(library_rooms base postgres event tracing client)
set(library_objects)
foreach(room ${library_rooms})
  list(APPEND library_objects $<TARGET_OBJECTS:baton_${room}>)
endforeach()

foreach(kind static shared)
  string(TOUPPER ${kind} KIND)
  add_library(baton_${kind} ${KIND} ${library_objects})
  set_target_properties(baton_${kind} PROPERTIES OUTPUT_NAME baton LINKER_LANGUAGE CXX EXPORT_NAME ${kind})
  target_include_directories(baton_${kind} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(baton_${kind} INTERFACE cxx_std_20)
  target_link_libraries(baton_${kind} PRIVATE PostgreSQL::PostgreSQL fmt::fmt Threads::Threads)
endforeach()
add_library(baton::baton ALIAS baton_shared)  # the same name as in the package
# Spans for a collector, apart: libbaton does without libcurl.
foreach(kind static shared)
  string(TOUPPER ${kind} KIND)
  add_library(baton_otlp_${kind} ${KIND} $<TARGET_OBJECTS:baton_otlp>)
  set_target_properties(baton_otlp_${kind} PROPERTIES OUTPUT_NAME baton_otlp LINKER_LANGUAGE CXX EXPORT_NAME otlp_${kind})
  target_link_libraries(baton_otlp_${kind} PUBLIC baton_${kind} PRIVATE CURL::libcurl ZLIB::ZLIB Threads::Threads)
endforeach()
add_library(baton::otlp ALIAS baton_otlp_shared)
# Before 1.0 a minor version may change the interface.
set_target_properties(baton_shared baton_otlp_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(BATON_SANITIZE)
  # Whoever loads it needs the sanitizer too.
  target_compile_options(baton_shared PUBLIC ${sanitizer_flags})
  target_link_options(baton_shared PUBLIC ${sanitizer_flags})
else()
  target_link_options(baton_otlp_shared PRIVATE -Wl,--no-undefined)
  target_link_options(baton_shared PRIVATE -Wl,--no-undefined)  # a room that needs more than is linked is seen here
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/baton)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/baton-config.cmake.in
  ${PROJECT_BINARY_DIR}/packaging/baton-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/packaging/baton-config-version.cmake
  COMPATIBILITY SameMinorVersion)
foreach(name baton baton-otlp)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/${name}.pc.in ${PROJECT_BINARY_DIR}/packaging/${name}.pc @ONLY)
endforeach()

install(TARGETS baton RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The program writes its own manual page and completions.
set(texts ${PROJECT_BINARY_DIR}/packaging)
add_custom_command(OUTPUT ${texts}/baton.1 ${texts}/baton.bash ${texts}/_baton ${texts}/baton.fish
  COMMAND baton man > ${texts}/baton.1
  COMMAND baton completion bash > ${texts}/baton.bash
  COMMAND baton completion zsh > ${texts}/_baton
  COMMAND baton completion fish > ${texts}/baton.fish
  DEPENDS baton VERBATIM)
add_custom_target(baton_texts ALL DEPENDS ${texts}/baton.1 ${texts}/baton.bash ${texts}/_baton ${texts}/baton.fish)
install(FILES ${texts}/baton.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${texts}/baton.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME baton)
install(FILES ${texts}/_baton DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${texts}/baton.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(TARGETS baton_static baton_shared EXPORT baton-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS baton_otlp_static baton_otlp_shared EXPORT baton-otlp-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT baton-otlp-targets NAMESPACE baton:: DESTINATION ${package_folder})
install(EXPORT baton-targets NAMESPACE baton:: DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/packaging/baton-config.cmake ${PROJECT_BINARY_DIR}/packaging/baton-config-version.cmake
  DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/packaging/baton.pc ${PROJECT_BINARY_DIR}/packaging/baton-otlp.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/baton DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/monitoring DESTINATION ${CMAKE_INSTALL_DATADIR}/baton PATTERN README.md EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
