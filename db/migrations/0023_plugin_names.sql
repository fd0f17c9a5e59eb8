-- Up Migration
-- The frontmatter of the latest version is the plugin's name and description. Names given at the creation hold until then.
-- The search texts follow by the trigger plugin_words.
UPDATE plugins p SET display_name = coalesce(v.manifest ->> 'name', p.display_name),
       description = coalesce(v.manifest ->> 'description', p.description)
  FROM versions v WHERE v.id = p.latest_version_id;
