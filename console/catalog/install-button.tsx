/** Installing: which versions to follow, what it asks for, and the consent to what it can reach. */
import { Alert, Button, Checkbox, Group, NativeSelect, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { FieldInputs } from '../configuration/field-inputs.tsx';
import { type Filled, filledFrom, saveConfiguration } from '../configuration/filled.ts';
import { useAction } from '../rest/action.ts';
import { bodyOf, rest } from '../rest/client.ts';
import { Dialog } from '../shell/dialog.tsx';
import type { Entry } from './entry-page.tsx';
import { ReachList } from './reach-list.tsx';

export function InstallButton({ entry }: { readonly entry: Entry }) {
  const [isOpen, { open, close }] = useDisclosure(false);
  if (entry.latest === null) return null;
  return (
    <>
      <Button onClick={open} disabled={entry.blockedReason !== null}>
        Install
      </Button>
      <Dialog title={`Install ${entry.displayName}`} opened={isOpen} onClose={close}>
        <InstallForm entry={entry} />
      </Dialog>
    </>
  );
}

function InstallForm({ entry }: { readonly entry: Entry }) {
  const [pinned, setPinned] = useState('');
  const [filled, setFilled] = useState<Filled>(filledFrom(entry.configuration, {}));
  /** The version whose access the user has read and allowed. When a newer one comes meanwhile, it is asked again. */
  const [consented, setConsented] = useState<string | null>(null);
  const latest = entry.latest?.versionId ?? null;
  const install = useInstall(entry, pinned, filled);
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    install.mutate();
  };
  return (
    <form onSubmit={onSubmit}>
      <Stack>
        <NativeSelect
          label="Versions"
          description="A new version that asks for more access always waits for your consent."
          value={pinned}
          onChange={(event) => setPinned(event.currentTarget.value)}
          data={[
            { value: '', label: `Follow the newest (now ${entry.latest?.semVer})` },
            ...entry.versions.map(({ versionId, semVer }) => ({ value: versionId, label: `Stay on ${semVer}` })),
          ]}
        />
        <FieldInputs fields={entry.configuration} filled={filled} setFilled={setFilled} secretNames={[]} />
        <Title order={3} fz="md">
          What you allow
        </Title>
        <ReachList reach={entry.reach} none="It asks for nothing: it reaches nothing of yours." />
        {pinned === '' || pinned === entry.latest?.versionId ? null : (
          <Text size="sm">An older version may ask for less; you allow what that version asks for.</Text>
        )}
        {consented !== null && consented !== latest ? (
          <Alert color="yellow" role="status" title={`${entry.latest?.semVer} has just been published`}>
            What you allow is shown as it asks for it. Read it again, then allow it.
          </Alert>
        ) : null}
        <Checkbox
          label="I allow this plugin what is listed above"
          checked={consented !== null && consented === latest}
          onChange={(event) => setConsented(event.currentTarget.checked ? latest : null)}
        />
        <Group justify="flex-end">
          <Button type="submit" disabled={consented === null || consented !== latest} loading={install.isPending}>
            Install
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function useInstall(entry: Entry, pinned: string, filled: Filled) {
  const navigate = useNavigate();
  return useAction<void, void>(async () => {
    const made = await bodyOf(rest.POST('/installations', { body: { slug: entry.slug, ...choice(entry, pinned) } }));
    // It is installed whatever becomes of the settings: its page says what is missing.
    await navigate({ to: '/installations/$id', params: { id: made.id } });
    await saveConfiguration(made.id, filled, {});
  }, 'Installed');
}

/** With the newest goes which one was shown: one that asks for more and was published since is not installed. */
function choice({ latest }: Entry, pinned: string) {
  if (pinned !== '') return { versionPolicy: 'Pinned' as const, pinnedVersionId: pinned };
  return { versionPolicy: 'Latest' as const, ...(latest ? { versionId: latest.versionId } : {}) };
}
