/** The install dialog: version policy, configuration and consent. */
import { Alert, Button, Card, Checkbox, Group, NativeSelect, Stack, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useBlocker, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { labelRefusal } from '../configuration/field-errors.ts';
import { FieldInputs } from '../configuration/field-inputs.tsx';
import {
  type Fields,
  type FormValues,
  isChanged,
  listMissing,
  NOTHING_STORED,
  pickFields,
  UNCHANGED,
} from '../configuration/form-values.ts';
import { saveConfiguration } from '../configuration/save-configuration.ts';
import { hasHooks, RequiredCheckbox, suggestsRequired } from '../installations/required-checkbox.tsx';
import { readBody, rest } from '../rest/client.ts';
import { useAction } from '../rest/use-action.ts';
import { ActionForm } from '../shell/action-form.tsx';
import { Dialog } from '../shell/dialog.tsx';
import { IconDownload } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import type { Entry } from './entry-page.tsx';
import { ReachList, type Tools } from './reach-list.tsx';

export function InstallButton({ entry }: { readonly entry: Entry }) {
  const [isOpen, { open, close }] = useDisclosure(false);
  // Here, so that the dialog has it again after it was closed.
  const [filled, setFilled] = useState(UNCHANGED);
  useBlocker({ shouldBlockFn: () => false, enableBeforeUnload: () => isChanged(filled) });
  if (entry.latest === null) return null;
  return (
    <>
      <Button
        size="md"
        onClick={open}
        disabled={entry.blockedReason !== null}
        leftSection={<IconDownload size={18} stroke={1.8} />}
      >
        Install
      </Button>
      <Dialog title={`Install ${escapeText(entry.displayName)}`} opened={isOpen} onClose={close}>
        <InstallForm entry={entry} filled={filled} setFilled={setFilled} onClose={close} />
      </Dialog>
    </>
  );
}

interface InstallFormProps {
  readonly entry: Entry;
  readonly filled: FormValues;
  readonly setFilled: (filled: FormValues) => void;
  readonly onClose: () => void;
}

function InstallForm({ entry, filled, setFilled, onClose }: InstallFormProps) {
  /** The version to stay on. Null: follow the newest. */
  const [pinned, setPinned] = useState<Version | null>(null);
  /** Undefined, too, if the chosen version is no longer offered: it was yanked, or the list is full of newer ones. */
  const offeredPin = entry.versions.find(({ versionId }) => versionId === pinned?.versionId);
  const lost = offeredPin === undefined ? pinned : null;
  const offered: Asked = offeredPin ?? pickNewest(entry);
  /** The version that the user consented to. Choosing another version asks again. */
  const [consented, setConsented] = useState<string | null>(null);
  /** The user's choice. Null: what is suggested for the version. */
  const [chosen, setChosen] = useState<boolean | null>(null);
  const required = chosen ?? suggestsRequired(offered.reach);
  const isConsented = consented !== null && consented === offered.versionId;
  const install = useInstall(entry, {
    pinnedVersionId: offeredPin?.versionId ?? null,
    filled: pickFields(offered.configuration, filled),
    required,
    fields: offered.configuration,
  });
  const choose = (chosenId: string) => {
    setPinned(entry.versions.find(({ versionId }) => versionId === chosenId) ?? null);
    setConsented(null);
  };
  return (
    <ActionForm action={install} onSubmit={() => install.mutate()}>
      <Stack>
        <Text size="sm" c="dimmed" className="foreign">
          By {escapeText(entry.author.name)}, {entry.tier}
        </Text>
        <NativeSelect
          label="Versions"
          description="A new version that requests more access always needs your consent."
          value={offeredPin?.versionId ?? ''}
          onChange={(event) => choose(event.currentTarget.value)}
          data={[
            { value: '', label: `Follow the newest (now ${entry.latest?.semVer})` },
            ...entry.versions.map(({ versionId, semVer }) => ({ value: versionId, label: `Stay on ${semVer}` })),
          ]}
        />
        <Card withBorder bg="var(--sunken)">
          <Title order={3} fz="md" mb="sm">
            What you allow
          </Title>
          <ReachList reach={offered.reach} none="This plugin requests no access." tools={offered.tools ?? []} />
        </Card>
        <FieldInputs fields={offered.configuration} filled={filled} setFilled={setFilled} stored={NOTHING_STORED} />
        {hasHooks(offered.reach) ? <RequiredCheckbox required={required} onChange={setChosen} /> : null}
        {(consented !== null || lost !== null) && !isConsented ? <OfferChange entry={entry} lost={lost} /> : null}
        <Checkbox
          label="I allow this plugin what is listed above"
          checked={isConsented}
          onChange={(event) => setConsented(event.currentTarget.checked ? offered.versionId : null)}
        />
        <MissingNote fields={offered.configuration} filled={filled} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!isConsented} loading={install.isPending}>
            Install
          </Button>
        </Group>
      </Stack>
    </ActionForm>
  );
}

interface OfferChangeProps {
  readonly entry: Entry;
  /** The version that the user had chosen. Null: the user follows the newest one. */
  readonly lost: Version | null;
}

function OfferChange({ entry: { latest }, lost }: OfferChangeProps) {
  const newest = `The newest version is ${latest?.semVer} now`;
  return (
    <Alert color="yellow" role="status" title={lost === null ? newest : `${lost.semVer} is no longer offered`}>
      {lost === null ? null : `${newest}. `}The list above shows the access of that version. Read it before you allow
      it.
    </Alert>
  );
}

interface MissingNoteProps {
  readonly fields: Fields;
  readonly filled: FormValues;
}

function MissingNote({ fields, filled }: MissingNoteProps) {
  const { settings, secrets } = listMissing(fields, filled, NOTHING_STORED);
  const labels = [...settings, ...secrets].map(({ label }) => label);
  if (labels.length === 0) return null;
  return (
    <Text size="sm" className="foreign">
      You can install it now, but it runs only with {escapeText(labels.join(', '))}. Fill in what is missing here, or
      later in its settings.
    </Text>
  );
}

type Version = Entry['versions'][number];
type Asked = Pick<Version, 'reach' | 'configuration'> & {
  readonly versionId: string | null;
  /** Only the newest version's are known. */
  readonly tools?: Tools;
};

const pickNewest = ({ latest, reach, configuration, discovered }: Entry): Asked => ({
  versionId: latest?.versionId ?? null,
  tools: discovered?.tools ?? [],
  reach,
  configuration,
});

interface Choice {
  /** The version to stay on. Null: follow the newest. */
  readonly pinnedVersionId: string | null;
  readonly filled: FormValues;
  readonly required: boolean;
  readonly fields: Fields;
}

function useInstall(entry: Entry, { pinnedVersionId, filled, required, fields }: Choice) {
  const navigate = useNavigate();
  return useAction<void, void>(async () => {
    const body = { slug: entry.slug, required, ...pickPolicy(entry, pinnedVersionId) };
    const made = await readBody(rest.POST('/installations', { body }));
    // Navigates first: if saving the settings fails, the page of the installation shows what is missing.
    await navigate({ to: '/installations/$id', params: { id: made.id } });
    await saveConfiguration({ id: made.id, versionId: made.currentVersionId, settings: {} }, filled).catch(
      (error: unknown) => {
        throw labelRefusal(error, fields);
      },
    );
  }, 'Installed');
}

/** Names the version that was shown, so that a later one is not installed without consent. */
function pickPolicy({ latest }: Entry, pinnedVersionId: string | null) {
  if (pinnedVersionId !== null) return { versionPolicy: 'Pinned' as const, pinnedVersionId };
  return { versionPolicy: 'Latest' as const, ...(latest ? { versionId: latest.versionId } : {}) };
}
