#!lua flags=allow-oom
-- needs: documents
--
-- Read a document.
--
-- ARGV[2]  KIND:NAME
-- Returns  {} if it does not exist, or {revision, when it was last written, text}

begin()
local d = documentOf(ARGV[2])
return d and d.text and { d.revision, d.at, d.text } or {}
