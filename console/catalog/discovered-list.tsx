/** Lists what a version registers, as introspection found it. */
import { Code, List, Stack, Text, Title } from '@mantine/core';
import type { components } from '../../sdk/rest/schema.d.ts';
import { escapeText } from '../style/untrusted-text.ts';

type Discovered = components['schemas']['Discovered'];
interface Row {
  readonly name: string;
  readonly description?: string;
}

export function DiscoveredList({ discovered }: { readonly discovered: Discovered }) {
  const groups = groupRegistrations(discovered).filter(([, rows]) => rows.length > 0);
  if (groups.length === 0) return <Text>This version registers nothing.</Text>;
  return (
    <Stack gap="sm">
      {groups.map(([title, rows]) => (
        <div key={title}>
          <Title order={3} fz="xs" c="dimmed" fw={550} mb={4}>
            {title}
          </Title>
          <List listStyleType="none" spacing={4}>
            {rows.map(({ name, description }) => (
              <List.Item key={name}>
                <Code className="foreign" fz="0.75rem">
                  {name}
                </Code>{' '}
                <Text span size="sm" className="foreign">
                  {escapeText(description ?? '')}
                </Text>
              </List.Item>
            ))}
          </List>
        </div>
      ))}
    </Stack>
  );
}

const countModels = (count: number): string => (count === 1 ? '1 model' : `${count} models`);

function groupRegistrations(found: Discovered): [string, Row[]][] {
  const toRows = (names: readonly string[]) => names.map((name) => ({ name }));
  const channel = Object.entries(found.channel ?? {}).flatMap(([name, has]) =>
    has ? [{ name: `channel.${name}` }] : [],
  );
  return [
    ['Hooks', toRows(found.middleware)],
    ['Tools for agents', found.tools],
    ['Commands', found.commands],
    ['Skills', found.skills],
    ['Events', toRows(found.lifecycle)],
    ['Model providers', found.providers.map(({ name, models }) => ({ name, description: countModels(models.length) }))],
    ['Channel', channel],
  ];
}
