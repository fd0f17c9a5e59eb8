/** The account's own plugins, and the form that makes a new one. */
import { Badge, Button, Card, Group, Stack, Text, TextInput, Title } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useAction } from '../rest/action.ts';
import { bodyOf, rest } from '../rest/client.ts';
import { PageLink } from '../shell/page-link.tsx';
import { Pages } from '../shell/pages.tsx';
import { Part } from '../shell/part.tsx';
import { PluginIcon } from '../shell/plugin-icon.tsx';

const PAGE = 100;

export function PluginsPage() {
  return (
    <Stack>
      <Title order={1}>My plugins</Title>
      <Pages
        of={['plugins']}
        read={(cursor) =>
          bodyOf(
            rest.GET('/plugins', { params: { query: { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) } } }),
          )
        }
        none="You have made no plugin yet. Give the first one a name below; then drop its folder to publish it."
      >
        {(items) =>
          items.map(({ id, slug, displayName, description, visibility, blockedReason }) => (
            <Card key={id} withBorder padding="sm" component="article">
              <Group gap="xs">
                <PluginIcon slug={slug} name={displayName} size={28} />
                <PageLink to="/plugins/$id" params={{ id }} fw={650} className="foreign">
                  {displayName}
                </PageLink>
                <Text size="sm" c="dimmed" ff="monospace">
                  {slug}
                </Text>
                <Badge variant="light" color={visibility === 'listed' ? 'teal' : 'gray'}>
                  {visibility}
                </Badge>
                {blockedReason ? <Badge color="red">blocked</Badge> : null}
              </Group>
              <Text size="sm" className="foreign">
                {description}
              </Text>
            </Card>
          ))
        }
      </Pages>
      <Part title="New plugin">
        <NewPlugin />
      </Part>
    </Stack>
  );
}

function NewPlugin() {
  const [displayName, setDisplayName] = useState('');
  const [slug, setSlug] = useState('');
  const [description, setDescription] = useState('');
  const navigate = useNavigate();
  const create = useAction<void, void>(async () => {
    const { id } = await bodyOf(rest.POST('/plugins', { body: { slug, displayName, description } }));
    await navigate({ to: '/plugins/$id', params: { id } });
  }, 'The plugin is made');
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <form onSubmit={onSubmit}>
      <Stack maw={560}>
        <TextInput
          label="Name"
          required
          value={displayName}
          onChange={(event) => setDisplayName(event.currentTarget.value)}
        />
        <TextInput
          label="Slug"
          description="Its name in addresses, for good: small letters, digits and hyphens."
          required
          value={slug}
          onChange={(event) => setSlug(event.currentTarget.value)}
        />
        <TextInput
          label="Description"
          description="Left empty, the one of its readme is shown."
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
        />
        <Group>
          <Button type="submit" loading={create.isPending}>
            Create
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
