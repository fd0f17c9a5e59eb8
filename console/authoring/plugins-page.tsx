/** Lists the account's own plugins, with a form to create one. */
import { Button, Card, Grid, Group, Stack, Text } from '@mantine/core';
import { useInputState } from '@mantine/hooks';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { EmptyState } from '../shell/empty-state.tsx';
import { TextField } from '../shell/form-fields.tsx';
import { Monospace } from '../shell/monospace.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { PagedList } from '../shell/paged-list.tsx';
import { PluginIcon } from '../shell/plugin-icon.tsx';
import { Section } from '../shell/section.tsx';
import { StatusDot } from '../shell/status-dot.tsx';
import { useLeaving } from '../shell/use-leaving.ts';
import { IconPackage } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';

const PAGE = 100;
const NONE = (
  <EmptyState icon={IconPackage}>
    You have no plugins yet. Create one with the form. Then drop its folder to publish it, or write it in the editor.
  </EmptyState>
);

export function PluginsPage() {
  return (
    <Stack gap="lg">
      <PageHeader title="My plugins" subtitle="Publish your plugins, list them in the catalog, and try their drafts." />
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Stack gap="xs">
            <PagedList
              queryKey={['plugins']}
              read={(page) => readBody(rest.GET('/plugins', { params: { query: { limit: PAGE, ...page } } }))}
              empty={NONE}
            >
              {(items) => (
                <Stack gap="xs">
                  {items.map((plugin) => (
                    <PluginCard key={plugin.id} plugin={plugin} />
                  ))}
                </Stack>
              )}
            </PagedList>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Section title="New plugin">
            <NewPlugin />
          </Section>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

function PluginCard({ plugin }: { readonly plugin: components['schemas']['Plugin'] }) {
  const { id, slug, displayName, description, visibility, blockedReason } = plugin;
  return (
    <Card withBorder padding="sm" component="article" className="row-card">
      <Group wrap="nowrap" gap="sm">
        <PluginIcon slug={slug} name={displayName} />
        <Stack gap={2} flex={1} miw={0}>
          <Group gap="sm" style={{ rowGap: 0 }}>
            <PageLink to="/plugins/$id" params={{ id }} className="foreign entry-link">
              {escapeText(displayName)}
            </PageLink>
            <Text span c="dimmed">
              <Monospace>{slug}</Monospace>
            </Text>
          </Group>
          <Text size="sm" c="dimmed" lineClamp={2} className="foreign">
            {escapeText(description)}
          </Text>
        </Stack>
        {blockedReason ? <StatusDot tone="bad">blocked</StatusDot> : null}
        <StatusDot tone={visibility === 'listed' ? 'good' : 'quiet'}>{visibility}</StatusDot>
      </Group>
    </Card>
  );
}

function NewPlugin() {
  const [displayName, setDisplayName] = useInputState('');
  const [typedSlug, setSlug] = useInputState<string | null>(null);
  const slug = typedSlug ?? proposeSlug(displayName);
  const [description, setDescription] = useInputState('');
  const startLeaving = useLeaving();
  const create = useAction<void, void>(async () => {
    const leaveTo = startLeaving();
    const { id } = await readBody(rest.POST('/plugins', { body: { slug, displayName, description } }));
    await leaveTo({ to: '/plugins/$id', params: { id } });
  }, 'The plugin is created');
  return (
    <ActionForm action={create} onSubmit={() => create.mutate()}>
      <Stack>
        <TextField label="Name" name="displayName" required value={displayName} onChange={setDisplayName} />
        <TextField
          label="Slug"
          name="slug"
          description="Permanent name in addresses: lower-case letters, digits and hyphens."
          required
          value={slug}
          onChange={setSlug}
        />
        <TextField
          label="Description"
          name="description"
          description="Optional. Name and description hold until the first version; then its readme.md does."
          value={description}
          onChange={setDescription}
        />
        <Group>
          <Button type="submit" loading={create.isPending}>
            Create
          </Button>
        </Group>
      </Stack>
    </ActionForm>
  );
}

/** The limit of the service. Characters. */
const SLUG_MAX_CHARS = 64;

/** Proposes a slug in the letters that a slug may have. Empty: the name has none of them. */
function proposeSlug(name: string): string {
  const plain = name.normalize('NFKD').replaceAll(/\p{M}/gu, '').toLowerCase();
  const words = plain.match(/[a-z0-9]+/g) ?? [];
  return words.join('-').slice(0, SLUG_MAX_CHARS).replace(/-$/, '');
}
