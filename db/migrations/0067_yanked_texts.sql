-- Up Migration
-- Yanked versions that gave up their files kept texts of up to 1 MiB that count for no quota.
UPDATE versions SET readme = '', registrations = '{}',
    manifest = manifest || '{"capabilities": [], "settings": {}, "secrets": {}}', discovered =
    '{"commands": [], "skills": [], "middleware": [], "lifecycle": [], "tools": [], "providers": [], "channel": null}'
  WHERE status = 'yanked' AND stored_bytes = 0;
