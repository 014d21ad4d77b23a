# libbaton, static and shared, and what a program needs to find it: CMake package and pkg-config file.

include(CMakePackageConfigHelpers)

# The rooms that the library is made of; the program has more.
set(library_rooms base postgres event client)
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
# Before 1.0 a minor version may change the interface.
set_target_properties(baton_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(BATON_SANITIZE)
  # Whoever loads it needs the sanitizer too.
  target_compile_options(baton_shared PUBLIC ${sanitizer_flags})
  target_link_options(baton_shared PUBLIC ${sanitizer_flags})
else()
  target_link_options(baton_shared PRIVATE -Wl,--no-undefined)  # a room that needs more than is linked is seen here
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/baton)
configure_package_config_file(${PROJECT_SOURCE_DIR}/packaging/baton-config.cmake.in
  ${PROJECT_BINARY_DIR}/packaging/baton-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/packaging/baton-config-version.cmake
  COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/packaging/baton.pc.in ${PROJECT_BINARY_DIR}/packaging/baton.pc @ONLY)

install(TARGETS baton RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS baton_static baton_shared EXPORT baton-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT baton-targets NAMESPACE baton:: DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/packaging/baton-config.cmake ${PROJECT_BINARY_DIR}/packaging/baton-config-version.cmake
  DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/packaging/baton.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/baton DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
