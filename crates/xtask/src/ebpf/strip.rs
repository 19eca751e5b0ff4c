//! The linked object without what no loader reads.
//!
//! DWARF is four fifths of it, and names compilation units by hashes that differ from cargo to
//! cargo. What stays is code, maps, symbols, and BTF with the line that the verifier quotes for
//! an instruction. Relocations of BTF repeat what is in its place already.

use anyhow::Context;
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// Sections that go, by how their names begin.
const GONE: [&[u8]; 3] = [b".debug_", b".rel.debug_", b".rel.BTF"];

/// The ELF file `linked` without debugging sections.
pub(super) fn without_dwarf(linked: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut elf = Builder::read(linked).context("read the linked object")?;
    for section in &mut elf.sections {
        section.delete = GONE.iter().any(|gone| section.name.starts_with(gone));
    }
    elf.delete_orphans();
    // LLVM keeps the names of sections and of symbols in one table, this writer in two.
    if !elf.sections.iter().any(|section| matches!(section.data, SectionData::SectionString)) {
        add_names(&mut elf);
    }
    let mut stripped = Vec::new();
    elf.write(&mut stripped).context("write the stripped object")?;
    Ok(stripped)
}

/// Adds the table of the sections' names.
fn add_names(elf: &mut Builder<'_>) {
    let names = elf.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
}

#[cfg(test)]
mod tests {
    use object::Endianness;
    use object::elf::{EM_BPF, SHT_PROGBITS};
    use object::read::{Object as _, ObjectSection as _};

    use super::*;

    /// An ELF file of the sections of these names.
    fn elf(names: &[&'static str]) -> Vec<u8> {
        let mut elf = Builder::new(Endianness::Little, true);
        elf.header.e_machine = EM_BPF;
        for name in names {
            let section = elf.sections.add();
            section.name = name.as_bytes().into();
            section.sh_type = SHT_PROGBITS;
            section.data = SectionData::Data(b"octets".as_slice().into());
        }
        add_names(&mut elf);
        let mut octets = Vec::new();
        elf.write(&mut octets).unwrap();
        octets
    }

    #[test]
    fn code_and_btf_stay_and_dwarf_goes() {
        let linked = elf(&["xdp", ".debug_info", ".BTF", ".BTF.ext", ".debug_line", "maps"]);
        let stripped = without_dwarf(&linked).unwrap();
        let stripped = object::File::parse(&*stripped).unwrap();
        let names: Vec<_> = stripped
            .sections()
            .map(|section| section.name().unwrap().to_owned())
            .filter(|name| name != ".shstrtab")
            .collect();
        assert_eq!(names, ["xdp", ".BTF", ".BTF.ext", "maps"]);
        assert_eq!(stripped.section_by_name("xdp").unwrap().data().unwrap(), b"octets");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(without_dwarf(b"#!/bin/sh").is_err());
    }
}
